// SPDX-License-Identifier: Apache-2.0
// The running daemon: one control thread (signals, sources, resolver engine, admin endpoint) and
// the workers that answer.
//
//     Daemon::start -> run (until SIGTERM or SIGINT) -> drain
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/registry_streams.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/daemon/address_reach.hpp"
#include "dnsd/daemon/announcement.hpp"
#include "dnsd/daemon/config_reloader.hpp"
#include "dnsd/daemon/health.hpp"
#include "dnsd/daemon/kernel_answers.hpp"
#include "dnsd/daemon/memory_limit.hpp"
#include "dnsd/daemon/overload.hpp"
#include "dnsd/daemon/query_logging.hpp"
#include "dnsd/daemon/query_settings_in_use.hpp"
#include "dnsd/daemon/served_addresses.hpp"
#include "dnsd/daemon/signals.hpp"
#include "dnsd/daemon/upgrade.hpp"
#include "dnsd/daemon/upstream_in_use.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/engine.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/mailbox.hpp"

namespace meshdns::dnsd {

// The composition of the parts, and the order in which they start, follow a reload, and end.
// Control thread.
class Daemon {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Binds, reads, starts answering.  An Error leaves nothing running.  `files` are read again
  // on SIGHUP; without a name never.  REQUIRES: `log` outlives the daemon.
  static Result<std::unique_ptr<Daemon>> start(ConfigFiles files, Config config, Log& log);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until SIGTERM, SIGINT or stop(), then drains.  The process's exit status.
  int run();
  void stop();
  // As SIGHUP: configuration and sources.
  void reload();

 private:
  Daemon(ConfigFiles files, Config config, Log& log);

  // The start, in this order.
  Result<void> start();
  Result<void> open_addresses();
  void wait_beside_predecessor();
  Result<void> take_over_addresses();
  void wait_for_sources();
  Result<void> start_workers();
  Result<void> start_timers();

  // REQUIRES: the resolver has been started.
  ShownDaemon shown();

  void on_signal(int number);
  Result<std::uint64_t> request_reload();
  void apply_config(Config next);
  void choose_upstream(const std::vector<SocketAddress>& listening);
  void look_up_servers();
  std::vector<SocketAddress> own_addresses() const;
  void follow_server_names();
  void apply_upstream();
  void apply_query_settings();
  void watch_config();
  void bind();
  void follow_state_dir();
  void on_successor_changed();
  void update_state();
  void publish_health();
  // Says once that everything is answered, when the sources have been read.  If they take long,
  // says before it, once, that the rest is.  Call every second, and when a source was read.
  void announce_when_due();
  std::string facts() const;
  void show_first_steps() const;
  void housekeep();
  void follow_kernel();
  void log_troubles(Time now);
  void watch_reach(Time now);
  void drain_workers();
  void stop_timers();
  void shut_down();

  const Time started_ = std::chrono::steady_clock::now();
  const std::optional<std::uint64_t> memory_limit_ = cgroup_memory_limit();
  Config config_;
  Log& log_;
  ForwardLog forward_log_;
  uv_loop_t loop_{};
  bool loop_open_ = false;
  Phase phase_ = Phase::Serving;
  // Before the state directory and its lock: its connections tell another process of their end.
  Upgrade upgrade_;
  Engine engine_;
  QuerySettingsInUse query_settings_;
  std::shared_ptr<TcpBudget> budget_;
  UpstreamInUse upstream_;
  AddressReach reach_;
  std::uint64_t dropped_queries_ = 0;  // as of the last second
  QueryLogging query_logging_;
  WorkerPool workers_;
  KernelAnswers kernel_;
  RegistryStreams registry_streams_;
  AdminEndpoint admin_;
  AdminEndpoint metrics_;
  ServedAddresses addresses_;
  ConfigReloader reloader_;
  DaemonHealth health_;
  Supervisor supervisor_;
  enum class Announced : std::uint8_t { Nothing, Serving, Ready };
  Announced announced_ = Announced::Nothing;
  StartMemory start_memory_;
  Overload overload_;
  History history_;
  loop::Timer housekeeping_;
  loop::Timer watchdog_;
  loop::Timer lameduck_;
  loop::Mailbox from_workers_;
  DaemonSignals signals_;
};

}  // namespace meshdns::dnsd
