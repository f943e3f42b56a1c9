// SPDX-License-Identifier: Apache-2.0
// The health of the daemon: its problems in words, for /readyz, the supervisor and the log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/health_board.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/config_reloader.hpp"
#include "dnsd/daemon/kernel_answers.hpp"
#include "dnsd/daemon/reach_watch.hpp"
#include "dnsd/daemon/served_addresses.hpp"
#include "dnsd/daemon/upgrade.hpp"
#include "dnsd/daemon/upstream_follower.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/mesh/engine.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

// The functions below return problems that do not stop answers, in words, for /readyz and the
// status page.

// The files of the configuration that cannot be read now, `config_file` itself if it is watched,
// and `state_dir` if it cannot be written.  `state_dir`: as it is in use; empty = none.
std::vector<std::string> file_troubles(const Config& config, const std::string& config_file,
                                       const std::string& state_dir);

// The zones that no upstream server answers: each one is down, loops, or answers nothing but
// errors.  `statuses`: of the servers in use.
std::vector<std::string> upstream_troubles(const UpstreamConfig& upstream,
                                           std::span<const UpstreamStatus> statuses);

// The objects that are not in use because of an error, or in an older version; empty = none.
std::string refused_objects(const std::map<std::string, std::vector<registry::Finding>>& findings);

// Finds Pods whose queries server.allow refuses.  By default it has no public addresses, and Pods
// of some clusters have such addresses.  Control thread.
class RefusedPods {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The pause between two looks at many clients: one at 100,000 takes 20 ms.
  static constexpr std::chrono::seconds kPause{60};

  // Call every second or so.  Looks at the Pods of `snapshot` if they or `allow` have changed.
  void observe(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow, Time now);

  // How many are refused, the first of them, and a range that has it and its neighbours; empty:
  // none.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Found {
    std::size_t count = 0;
    std::string first;  // "Pod shop/web-1 at 203.0.113.7"
    IpPrefix range;
  };
  static std::string describe(const Found& found);
  static Found find(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow);

  std::string trouble_;
  std::optional<std::uint64_t> generation_;  // of the last snapshot that was looked at
  std::vector<IpPrefix> allow_;              // as of then
  Time look_again_at_{};
};

// The reason that matters most; empty: there is none.  Valid as long as `readiness` is.
std::string_view first_reason(const Readiness& readiness);

// Control thread.
class HealthWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Watched {
    const Config& config;
    const Phase& phase;
    const Engine& engine;
    const ServedAddresses& addresses;
    const Upgrade& upgrade;
    const ReachWatch& reach;
    const ConfigReloader& reloader;
    const UpstreamFollower& upstream;
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
