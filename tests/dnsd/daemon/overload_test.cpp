// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/overload.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;

class OverloadTest : public testing::Test {
 protected:
  // A second passes, in which this happens so often; what is said then.
  std::string pass(std::uint64_t refused, std::uint64_t evicted = 0) {
    now_ += 1s;
    kinds_[0].total += refused;
    kinds_[1].total += evicted;
    std::string said;
    for (const auto& warning : watch_.observe(kinds_, now_))
      said += std::string(warning.what) + "=" + std::to_string(warning.count) + " ";
    return said;
  }

  Overload watch_;
  Overload::Time now_{100s};
  std::array<Degradation, 2> kinds_{{{"refused"}, {"evicted", 0, 100}}};
};

TEST_F(OverloadTest, SaysNothingWhereNothingHappens) {
  for (int i = 0; i < 60; ++i) EXPECT_EQ(pass(0), "");
}

TEST_F(OverloadTest, SaysAtOnceWhatBeginsAndThenTheSumEveryTenSeconds) {
  EXPECT_EQ(pass(0), "");
  EXPECT_EQ(pass(3), "refused=3 ");
  for (int i = 1; i < 10; ++i) EXPECT_EQ(pass(1000), "") << i;
  EXPECT_EQ(pass(1000), "refused=10000 ");
  for (int i = 1; i < 30; ++i) EXPECT_EQ(pass(0), "") << i;
  EXPECT_EQ(pass(1), "refused=1 ") << "it begins anew";
}

TEST_F(OverloadTest, OwesTheSumOfWhatEndsWithinThePause) {
  EXPECT_EQ(pass(1), "refused=1 ");
  EXPECT_EQ(pass(5), "");
  for (int i = 2; i < 10; ++i) EXPECT_EQ(pass(0), "") << i;
  EXPECT_EQ(pass(0), "refused=5 ");
}

TEST_F(OverloadTest, EachKindHasAPauseOfItsOwn) {
  EXPECT_EQ(pass(1, 0), "refused=1 ");
  EXPECT_EQ(pass(1, 101), "evicted=101 ");
}

TEST_F(OverloadTest, ToleratesWhatIsWithinReason) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pass(0, 9), "") << i;
  std::string said;
  for (int i = 0; i < 20; ++i) said += pass(0, 50);
  EXPECT_NE(said, "");
}

}  // namespace
}  // namespace meshdns::dnsd
