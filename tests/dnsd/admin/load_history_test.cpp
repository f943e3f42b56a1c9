// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/load_history.hpp"

#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using Buckets = std::array<std::uint64_t, QueryCounters::kDurationBuckets>;

TEST(LoadHistoryTest, HasRatesBetweenObservations) {
  LoadHistory history;
  const LoadHistory::Time start{100s};
  LoadHistory::Totals totals;
  totals.responses = 1'000'000;  // before anybody looked
  history.observe(totals, start);
  EXPECT_TRUE(history.points().empty());
  totals.responses += 500;
  totals.failures += 20;
  history.observe(totals, start + 2s);
  ASSERT_EQ(history.points().size(), 1U);
  EXPECT_DOUBLE_EQ(history.points()[0].responses_per_second, 250);
  EXPECT_DOUBLE_EQ(history.points()[0].failures_per_second, 10);
  EXPECT_DOUBLE_EQ(history.points()[0].p99_ms, 0);
}

TEST(LoadHistoryTest, KeepsTheLastMinutes) {
  LoadHistory history;
  LoadHistory::Totals totals;
  LoadHistory::Time now{100s};
  for (std::size_t i = 0; i < 2 * LoadHistory::kPoints; ++i) {
    totals.responses += i;
    history.observe(totals, now += 1s);
  }
  EXPECT_EQ(history.points().size(), LoadHistory::kPoints);
  EXPECT_DOUBLE_EQ(history.points().back().responses_per_second, 2 * LoadHistory::kPoints - 1);
}

TEST(LoadHistoryTest, FindsQuantilesInTheirBuckets) {
  EXPECT_DOUBLE_EQ(quantile_ms(Buckets{}, 0.5), 0);
  Buckets buckets{};
  buckets[0] = 100;  // up to 0.25 ms
  EXPECT_DOUBLE_EQ(quantile_ms(buckets, 0.5), 0.125);
  buckets[2] = 100;  // 0.5 to 1 ms
  EXPECT_DOUBLE_EQ(quantile_ms(buckets, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(quantile_ms(buckets, 0.75), 0.75);
  EXPECT_DOUBLE_EQ(quantile_ms(buckets, 1), 1);
  Buckets slow{};
  slow[QueryCounters::kDurationBuckets - 1] = 1;  // without upper limit
  EXPECT_DOUBLE_EQ(quantile_ms(slow, 0.5),
                   1e3 * QueryCounters::duration_limit(QueryCounters::kDurationBuckets - 2));
}

}  // namespace
}  // namespace meshdns::dnsd
