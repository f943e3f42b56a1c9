// SPDX-License-Identifier: Apache-2.0
// The log of overload: how often the daemon did less than it was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dnsd/daemon/query_logging.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "resolver/cache/cache.hpp"

namespace meshdns::dnsd {

// One way in which the daemon does less than it was asked for: it drops, refuses or cuts short for
// want of room.
struct Degradation {
  std::string_view what;  // for the log: what happens, and which setting decides; lives for ever
  std::uint64_t total = 0;
  std::uint64_t tolerated = 0;  // number of events per Overload::kPause that is not logged
};

// All there are, always in the same order.  Control thread.
std::vector<Degradation> degradations_of(const WorkerPool& pool, const QueryLogging& query_logging,
                                         const Cache& cache, const Log& log);

// The places where overload happens only count.  One thread.
class Overload {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPause{10};  // between two warnings of a kind

  struct Warning {
    std::string_view what;
    std::uint64_t count;  // since the last warning of this kind
  };
  // Returns the warnings that are due: at once when an overload begins, then the sum every kPause
  // while it lasts. REQUIRES: the same kinds in the same order, from zero on; to be called every
  // second.
  std::vector<Warning> observe(std::span<const Degradation> kinds, Time now);

 private:
  struct Kind {
    std::uint64_t counted = 0;  // up to here it has been said, or was tolerated
    Time since{};               // the epoch: never
  };
  std::vector<Kind> kinds_;
};

}  // namespace meshdns::dnsd
