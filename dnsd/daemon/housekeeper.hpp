// SPDX-License-Identifier: Apache-2.0
// The work of every second that changes no setting: memory is given back, what is to be kept is
// saved, overload is logged, and the figures of the last minutes are updated.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/daemon/memory_limit.hpp"
#include "dnsd/daemon/query_logging.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/engine.hpp"
#include "resolver/cache/cache.hpp"

namespace meshdns::dnsd {

// One way in which the daemon does less than it was asked for: it drops, refuses or cuts short for
// want of room.
struct Degradation {
  std::string_view what;  // for the log: what happens, and which setting decides; lives for ever
  std::uint64_t total = 0;
  std::uint64_t tolerated = 0;  // number of events per OverloadWatch::kPause that is not logged
};

// All there are, always in the same order.  Control thread.
std::vector<Degradation> degradations_of(const WorkerPool& pool, const QueryLogging& query_logging,
                                         const Cache& cache, const Log& log);

// Returns the warnings about overload that are due.  The places where it happens only count.  One
// thread.
class OverloadWatch {
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

// Control thread.
class Housekeeper {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Parts {
    Engine& engine;
    WorkerPool& workers;
    const QueryLogging& query_logging;
    const AdminEndpoint& admin;
    const AdminEndpoint& metrics;
    Log& log;
  };
  // REQUIRES: all that `parts` refers to outlives it.
  explicit Housekeeper(const Parts& parts) : parts_(parts) {}

  // Call every second.
  void tick(Time now);

  const LoadHistory& load() const { return load_; }
  const LatencyWindow& latency() const { return latency_; }
  const UpstreamHistory& upstreams() const { return upstreams_; }

 private:
  // The interval at which the counts of failing names are halved.
  static constexpr unsigned kFadeSeconds = 60;
  struct AdminCounts {
    std::uint64_t accept_failures = 0;
    std::uint64_t overdue = 0;
    std::uint64_t evicted = 0;
    std::uint64_t denied = 0;
  };

  void tell_of_overload(Time now);
  void tell_of_admin_clients(const AdminEndpoint& endpoint, AdminCounts& counts);
  void keep_history(Time now);

  const Parts parts_;
  StartMemory start_memory_;
  OverloadWatch overload_;
  LoadHistory load_;
  LatencyWindow latency_;
  UpstreamHistory upstreams_;
  AdminCounts admin_counts_;  // as they were a second ago
  AdminCounts metrics_counts_;
  unsigned seconds_to_fade_ = kFadeSeconds;
};

}  // namespace meshdns::dnsd
