// SPDX-License-Identifier: Apache-2.0
// The health of the daemon: its problems in words, for /readyz, the supervisor and the log.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/health_board.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/config_reloader.hpp"
#include "dnsd/daemon/kernel_answers.hpp"
#include "dnsd/daemon/phase.hpp"
#include "dnsd/daemon/reach_watch.hpp"
#include "dnsd/daemon/refused_pods.hpp"
#include "dnsd/daemon/served_addresses.hpp"
#include "dnsd/daemon/upgrade.hpp"
#include "dnsd/daemon/upstream_follower.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/mesh/kept_state.hpp"
#include "dnsd/mesh/mesh_state.hpp"
#include "dnsd/mesh/running_sources.hpp"

namespace meshdns::dnsd {

// The reason that matters most; empty: there is none.  Valid as long as `readiness` is.
std::string_view first_reason(const Readiness& readiness);

// Control thread.
class HealthWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Watched {
    const Config& config;
    const Phase& phase;
    const MeshState& mesh;
    const RunningSources& sources;
    const KeptState& kept;
    const ServedAddresses& addresses;
    const Upgrade& upgrade;
    const ReachWatch& reach;
    const ConfigReloader& reloader;
    const UpstreamFollower& upstream;
    const ForwardShared& forwarding;
    const WorkerPool& workers;
    const KernelAnswers& kernel;
    Log& log;
  };
  // REQUIRES: all that `watched` refers to outlives it.
  HealthWatch(const Watched& watched, Time now) : watched_(watched), board_(now) {}

  Readiness readiness() const;
  // The line that `systemctl status` shows.
  std::string status_line() const;
  // Hands the answers of /healthz and /readyz to the admin server's thread.  Call whenever one of
  // them may have changed.
  void publish();
  // The control thread lives.
  void beat(Time now) { board_.beat(now); }
  // Call every second: looks for problems of files, upstream servers and objects, and publishes.
  void tick(Time now);

  HealthBoard& board() { return board_; }

 private:
  void add_sources(Readiness& readiness) const;
  void look_for_refused_pods(Time now);
  std::vector<std::string> find_troubles() const;

  const Watched watched_;
  HealthBoard board_;
  RefusedPods refused_pods_;
  std::vector<std::string> troubles_;  // as of the last tick
};

}  // namespace meshdns::dnsd
