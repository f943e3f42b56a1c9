// SPDX-License-Identifier: Apache-2.0
// Keeps the load of the last minutes, for the charts of the status page.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "dnsd/query/query_counters.hpp"

namespace meshdns::dnsd {

// One thread.
class LoadHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kPoints = 300;

  // Counts since the start, of all workers together.
  struct Totals {
    std::uint64_t responses = 0;
    std::uint64_t failures = 0;  // SERVFAIL
    std::array<std::uint64_t, QueryCounters::kDurationBuckets> duration{};
  };
  // The load between two observations.
  struct Point {
    double responses_per_second = 0;
    double failures_per_second = 0;
    double median_ms = 0;  // 0 where nothing was answered
    double p99_ms = 0;
  };

  // To be called every second.
  void observe(const Totals& totals, Time now);
  // The last kPoints, oldest first.
  const std::deque<Point>& points() const { return points_; }

 private:
  bool has_begun_ = false;
  Totals last_;
  Time observed_;
  std::deque<Point> points_;
};

// The duration in milliseconds below which `share` of the counted ones are, interpolated within its
// bucket; the last bucket counts with its lower limit.  0 where nothing was counted.
double quantile_ms(const std::array<std::uint64_t, QueryCounters::kDurationBuckets>& buckets,
                   double share);

}  // namespace meshdns::dnsd
