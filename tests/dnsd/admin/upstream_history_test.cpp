// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/load_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

UpstreamStatus counts_of(std::string name, std::uint64_t answers, std::uint64_t timeouts) {
  UpstreamStatus status;
  status.name = std::move(name);
  status.answers = answers;
  status.timeouts = timeouts;
  return status;
}

class UpstreamHistoryTest : public testing::Test {
 protected:
  void observe(const std::vector<UpstreamStatus>& upstreams) {
    ASSERT_TRUE(history_.is_due(now_));
    history_.observe(upstreams, now_);
    EXPECT_FALSE(history_.is_due(now_ + seconds{4}));
    now_ += UpstreamHistory::kStep;
  }

  UpstreamHistory::Time now_{seconds{1'000}};
  UpstreamHistory history_;
};

TEST_F(UpstreamHistoryTest, HasTheWorkBetweenTwoObservations) {
  observe({counts_of("a", 100, 5)});
  EXPECT_THAT(history_.points("a"), IsEmpty());
  observe({counts_of("a", 150, 10)});
  ASSERT_THAT(history_.points("a"), SizeIs(1));
  EXPECT_DOUBLE_EQ(history_.points("a").front().replies_per_second, 10);
  EXPECT_DOUBLE_EQ(history_.points("a").front().failures_per_second, 1);
  EXPECT_THAT(history_.points("b"), IsEmpty());
}

TEST_F(UpstreamHistoryTest, KeepsTheLastFiveMinutes) {
  for (std::uint64_t i = 0; i < 2 * UpstreamHistory::kPoints; ++i) observe({counts_of("a", i, 0)});
  EXPECT_THAT(history_.points("a"), SizeIs(UpstreamHistory::kPoints));
}

TEST_F(UpstreamHistoryTest, ForgetsAServerThatIsGoneAndBeginsAnewWithItsCounters) {
  observe({counts_of("a", 100, 0), counts_of("b", 1, 0)});
  observe({counts_of("b", 6, 0)});
  EXPECT_THAT(history_.points("a"), IsEmpty());
  observe({counts_of("a", 3, 0), counts_of("b", 2, 0)});
  EXPECT_THAT(history_.points("a"), IsEmpty());
  EXPECT_THAT(history_.points("b"), IsEmpty()) << "its counters went back";
}

}  // namespace
}  // namespace meshdns::dnsd
