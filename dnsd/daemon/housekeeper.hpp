// SPDX-License-Identifier: Apache-2.0
// The work of every second that changes no setting: memory is given back, what is to be kept is
// saved, overload is logged, and the figures of the last minutes are updated.
#pragma once

#include <chrono>
#include <cstdint>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/admin/latency_window.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/admin/upstream_history.hpp"
#include "dnsd/daemon/overload_watch.hpp"
#include "dnsd/daemon/query_logging.hpp"
#include "dnsd/daemon/start_memory.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/kept_state.hpp"
#include "dnsd/mesh/mesh_state.hpp"
#include "dnsd/mesh/running_sources.hpp"

namespace meshdns::dnsd {

// Control thread.
class Housekeeper {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Parts {
    MeshState& mesh;
    KeptState& kept;
    RunningSources& sources;
    WorkerPool& workers;
    const QueryLogging& query_logging;
    const ForwardShared& forwarding;
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
