// SPDX-License-Identifier: Apache-2.0
// Keeps the load of the last minutes, for the charts of the status page.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "dnsd/query/query_counters.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

// Keeps the work of each upstream server in the last minutes, for the small charts of the status
// page.
// One thread.
class UpstreamHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kPoints = 60;
  static constexpr std::chrono::seconds kStep{5};

  // The work between two observations.
  struct Point {
    double replies_per_second = 0;
    double failures_per_second = 0;  // timeouts, errors of the network, SERVFAIL and REFUSED
  };

  bool is_due(Time now) const { return now - observed_ >= kStep; }
  // To be called when it is due.  Forgets servers that are not among `upstreams`.
  void observe(const std::vector<UpstreamStatus>& upstreams, Time now);
  // The last kPoints of the server, oldest first; none if it is new.
  const std::deque<Point>& points(const std::string& name) const;

 private:
  struct Server {
    std::uint64_t replies = 0;
    std::uint64_t failures = 0;
    std::deque<Point> points;
  };

  Time observed_{};
  std::map<std::string, Server> servers_;
};

// The latency of upstream servers in the last half to whole minute: their counters go back to the
// start.
// One thread.
class LatencyWindow {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Buckets = std::array<std::uint64_t, kLatencyBuckets + 1>;
  static constexpr std::chrono::seconds kHalf{30};

  bool is_due(Time now) const { return now - observed_ >= kHalf; }
  // To be called when it is due.
  void observe(const std::vector<UpstreamStatus>& upstreams, Time now);
  // The replies of `upstream` since the observation before the last one, by their latency.
  Buckets recent(const UpstreamStatus& upstream) const;

 private:
  using Counts = std::map<std::string, Buckets>;
  Time observed_{};
  Counts older_;
  Counts newer_;
};

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

// One thread.
struct History {
  LoadHistory load;
  LatencyWindow latency;
  UpstreamHistory upstreams;

  // To be called every second.
  void observe(const LoadHistory::Totals& totals, const UpstreamStates& states,
               LoadHistory::Time now);
};

// The duration in milliseconds below which `share` of the counted ones are, interpolated within its
// bucket; the last bucket counts with its lower limit.  0 where nothing was counted.
double quantile_ms(const std::array<std::uint64_t, QueryCounters::kDurationBuckets>& buckets,
                   double share);

}  // namespace meshdns::dnsd
