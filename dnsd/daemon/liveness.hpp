// SPDX-License-Identifier: Apache-2.0
// Whether every worker's loop turns.  Each counts a heartbeat a second; one whose count stands
// still hangs: in a system call, in an endless loop, or because its core is taken from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshdns::dnsd {

// One thread.
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kAvoidAfter{2};
  static constexpr std::chrono::seconds kStuckAfter{5};

  // The workers' counts, always in the same order; to be called every second.
  void observe(std::span<const std::uint64_t> heartbeats, Time now);
  // By index, those that had not moved for kStuckAfter at the last observation.
  std::vector<std::size_t> stuck() const { return still_for(kStuckAfter); }
  // The same for kAvoidAfter: perhaps they are only slow, but others answer sooner.
  std::vector<std::size_t> to_avoid() const { return still_for(kAvoidAfter); }
  // "worker 1 hangs"; empty when all turn.
  std::string complaint() const;

 private:
  std::vector<std::size_t> still_for(std::chrono::seconds time) const;

  struct Worker {
    std::uint64_t heartbeat = 0;
    Time moved;
  };
  std::vector<Worker> workers_;
  Time observed_;
};

}  // namespace meshdns::dnsd
