// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/top_queries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace meshdns::dnsd {
namespace {

using wire::Rcode;

std::uint64_t count_of(const FailingNames& names, const std::string& name, Rcode rcode) {
  for (const auto& entry : names.list())
    if (entry.name == name && entry.rcode == rcode) return entry.count;
  return 0;
}

TEST(FailingNamesTest, CountsByNameAndRcode) {
  FailingNames names;
  EXPECT_TRUE(names.list().empty());
  for (int i = 0; i < 3; ++i) names.note("\1a", Rcode::NxDomain);
  names.note("\1a", Rcode::ServFail);
  EXPECT_EQ(count_of(names, "\1a", Rcode::NxDomain), 3U);
  EXPECT_EQ(count_of(names, "\1a", Rcode::ServFail), 1U);
}

// Random names push out each other, not what fails over and over.
TEST(FailingNamesTest, KeepsFrequentNamesThroughAFloodOfOthers) {
  FailingNames names;
  for (int i = 0; i < 100'000; ++i) {
    names.note("random-" + std::to_string(i), Rcode::NxDomain);
    if (i % 10 == 0) names.note("often", Rcode::ServFail);
  }
  EXPECT_GE(count_of(names, "often", Rcode::ServFail), 10'000U);
  EXPECT_LE(names.list().size(), FailingNames::kPlaces);
}

TEST(FailingNamesTest, ForgetsWhatIsOver) {
  FailingNames names;
  for (int i = 0; i < 5; ++i) names.note("x", Rcode::NxDomain);
  names.fade();
  EXPECT_EQ(count_of(names, "x", Rcode::NxDomain), 2U);
  names.fade();
  names.fade();
  EXPECT_TRUE(names.list().empty());
}

TEST(FailingNamesTest, TakesNamesOfAnyLength) {
  FailingNames names;
  names.note("", Rcode::ServFail);
  names.note(std::string(255, 'a'), Rcode::ServFail);
  names.note(std::string(300, 'b'), Rcode::ServFail);
  EXPECT_EQ(count_of(names, "", Rcode::ServFail), 1U);
  EXPECT_EQ(count_of(names, std::string(255, 'a'), Rcode::ServFail), 1U);
  EXPECT_EQ(count_of(names, std::string(255, 'b'), Rcode::ServFail), 1U);
}

}  // namespace
}  // namespace meshdns::dnsd
