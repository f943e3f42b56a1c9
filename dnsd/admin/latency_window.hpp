// SPDX-License-Identifier: Apache-2.0
// The latency of upstream servers in the last half to whole minute: their counters go back to the
// start.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
