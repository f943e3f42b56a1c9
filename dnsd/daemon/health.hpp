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
#include <vector>

#include "dnsd/admin/load_history.hpp"
#include "dnsd/admin/published_health.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/mesh/engine.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "resolver/forward/upstream_state.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

// The files of the configuration that cannot be read now, `config_file` itself if it is watched,
// and `state_dir` if it cannot be written.  `state_dir`: as it is in use; empty = none.
std::vector<Problem> file_troubles(const Config& config, const std::string& config_file,
                                   const std::string& state_dir);

// The zones that no upstream server answers: each one is down, loops, or answers nothing but
// errors.  `statuses`: of the servers in use.
std::vector<Problem> upstream_troubles(const UpstreamConfig& upstream,
                                       std::span<const UpstreamStatus> statuses);

// Finds the zones whose upstream servers answer slowly: half of the answers of all its servers take
// longer than kSlowMs.  Few answers prove nothing.  Such a zone is slow until half of the answers
// have taken less than kQuickMs, or none has come, for kCalm: servers near the limit do not come
// and go.  Control thread.
class SlowZones {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Bounds of the histogram, so that the share above them is exact.
  static constexpr double kSlowMs = 512;
  static constexpr double kQuickMs = 256;
  static constexpr std::uint64_t kMinAnswers = 10;  // in the time that `latency` covers
  static constexpr std::chrono::seconds kCalm{60};

  // The zones that were found, and the labels of those that are slow no more.
  struct Change {
    std::vector<Problem> begun;
    std::vector<std::string> ended;
  };
  // Call every second or so.  `statuses`: of the servers in use.
  Change observe(const UpstreamConfig& upstream, std::span<const UpstreamStatus> statuses,
                 const LatencyWindow& latency, Time now);

  // Sorted by the labels of the zones.
  std::vector<Problem> troubles() const;

 private:
  struct Slow {
    Problem problem;
    Time until;
  };

  std::map<std::string, Slow> slow_;  // by the label
};

// The endpoint names without an address, and those that are answered with old addresses: the first
// of them with the last error, and the hosts that need them.
std::vector<Problem> endpoint_troubles(const resolver::NameResolver& names,
                                       const registry::Registry& registry);

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

// Control thread.
class DaemonHealth {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The problems outside of the engine.
  struct Complaints {
    Problem not_ready;    // why clients are to ask another daemon; empty: they may ask this one
    std::string workers;  // about those that hang; empty: none does
    std::vector<Problem> degraded;
  };

  // REQUIRES: both outlive it.  `upstream`: as in use; may change.
  DaemonHealth(const Engine& engine, const UpstreamConfig& upstream, Time now)
      : engine_(engine), upstream_(upstream), board_(now) {}

  // Call every second: looks for problems of files, upstream servers and objects.  `kernel`: the
  // problem of answers in the kernel; empty: none.
  void look(Time now, const std::string& config_file, const std::string& kernel,
            const LatencyWindow& latency);
  // Hands the answers of /healthz and /readyz to the admin server's thread.  Call whenever one of
  // them may have changed.
  void publish(Complaints complaints);

  // As it was published.
  Readiness readiness() const { return board_.readiness(); }
  // The line that `systemctl status` shows.
  std::string status_line() const;
  PublishedHealth& board() { return board_; }

 private:
  void add_engine(Readiness& readiness) const;
  void look_for_refused_pods(Time now);
  void look_for_slow_zones(std::span<const UpstreamStatus> statuses, const LatencyWindow& latency,
                           Time now);

  const Engine& engine_;
  const UpstreamConfig& upstream_;
  PublishedHealth board_;
  RefusedPods refused_pods_;
  SlowZones slow_zones_;
  std::vector<Problem> troubles_;  // as of the last look
};

}  // namespace meshdns::dnsd
