// SPDX-License-Identifier: Apache-2.0
// Keeps the work of each upstream server in the last minutes, for the small charts of the status
// page.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
