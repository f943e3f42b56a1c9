// SPDX-License-Identifier: Apache-2.0
// The running daemon: one control thread (signals, sources, resolver engine, admin endpoint) and
// the workers that answer.
//
//     Daemon::start -> run (until SIGTERM or SIGINT) -> drain
#pragma once

#include <uv.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/health_board.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/answer_watch.hpp"
#include "dnsd/daemon/cache_keeper.hpp"
#include "dnsd/daemon/config_reloader.hpp"
#include "dnsd/daemon/cookie_secret_keeper.hpp"
#include "dnsd/daemon/endpoint_lookups.hpp"
#include "dnsd/daemon/file_poll.hpp"
#include "dnsd/daemon/forward_log.hpp"
#include "dnsd/daemon/local_names_follower.hpp"
#include "dnsd/daemon/memory_limit.hpp"
#include "dnsd/daemon/mesh_analysis.hpp"
#include "dnsd/daemon/overload_watch.hpp"
#include "dnsd/daemon/query_logging.hpp"
#include "dnsd/daemon/registry_feed.hpp"
#include "dnsd/daemon/registry_names.hpp"
#include "dnsd/daemon/running_sources.hpp"
#include "dnsd/daemon/signals.hpp"
#include "dnsd/daemon/state_directory.hpp"
#include "dnsd/daemon/state_keeper.hpp"
#include "dnsd/daemon/supervisor.hpp"
#include "dnsd/daemon/upstream_servers.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/forward/forwarder.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/handover.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/query/forwarding_facts.hpp"
#include "dnsd/query/query_settings.hpp"
#include "loop/mailbox.hpp"
#include "loop/timer.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"
#include "resolver/name_resolver.hpp"

namespace meshdns::dnsd {

// Control thread, but for what says otherwise.
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

  // For the watch over overload.
  Log& log() { return log_; }
  Cache& cache() { return forwarding_->cache; }
  const WorkerPool& workers() const { return workers_; }
  const QueryLogging& query_logging() const { return query_logging_; }

 private:
  enum class Phase : std::uint8_t { Serving, Lameduck, Draining };
  struct AdminCounts {
    std::uint64_t accept_failures = 0;
    std::uint64_t overdue = 0;
    std::uint64_t evicted = 0;
  };

  Daemon(ConfigFiles files, Config config, Log& log);

  // REQUIRES: the resolver has been started.
  DaemonParts parts();
  Readiness readiness() const;
  void look_for_troubles();
  // Describes the forwarding of a name (lower-case wire form), for explanations.
  ForwardingFacts describe_forwarding(std::string_view wire_name, wire::Type type) const;

  Result<void> start();
  Result<void> open_listeners();
  Result<void> open_beside(const ListenerSet& present);
  void choose_upstream(std::span<const SocketAddress> listening);
  // Upgrades: this daemon as the next one, ...
  void find_predecessor();
  void wait_beside_predecessor();
  Result<void> take_over_listeners();
  void replace_predecessor();
  void on_predecessor_ended();
  // ... and as the one that runs.
  Handover::Hooks handover_hooks();
  void listen_for_successor();
  void on_successor_serving();
  void on_successor_lost(bool has_served);
  Result<void> open_admin();
  Result<void> serve_admin();
  bool may_wait_to_bind() const;
  Result<void> start_resolver();
  Result<void> start_workers();
  void wait_for_sources();
  void choose_vip_allocator();
  void follow_state_dir();
  Result<void> start_signals();
  void on_signal(int number);
  Result<std::uint64_t> request_reload();
  void close_signals();
  Result<void> start_timers();
  void announce_when_ready();
  void show_first_steps();
  void update_state();
  void tell_of_memory() const;
  void apply_config(Config next);
  void bind();
  void apply_listeners();
  void apply_upstream();
  void watch_hosts_file();
  void watch_config();
  void reload_if_changed();
  void read_cookie_secrets();
  QuerySettings make_query_settings() const;
  void apply_query_settings();
  void drain_workers();
  void stop_timers();
  void housekeep();
  void tell_of_overload();
  void tell_of_admin_clients(const AdminEndpoint& endpoint, AdminCounts& counts);
  void keep_history();
  // Hands the answers of /healthz and /readyz to the admin server's thread.
  void publish_health();
  std::string status_line() const;
  void shut_down();

  const Time started_ = std::chrono::steady_clock::now();
  const std::optional<std::uint64_t> memory_limit_ = cgroup_memory_limit();
  Config config_;
  Log& log_;
  ForwardLog forward_log_;
  uv_loop_t loop_{};
  bool loop_open_ = false;
  // Before the state directory and its lock: their connections tell another process of their end.
  Handover handover_;
  std::optional<Predecessor> predecessor_;  // it lives, and has the same sockets or is to give them
  std::string handover_trouble_;            // why no daemon can take over; empty if one can
  registry::Registry registry_;
  CacheKeeper cache_keeper_;
  CookieSecretKeeper cookie_secrets_;
  registry::Publisher publisher_;
  RegistryFeed feed_;
  RegistryNames mesh_names_;
  MeshAnalysis analysis_;
  AnswerWatch answers_;
  StateDirectory state_directory_;
  StateKeeper state_keeper_;
  std::string vip_trouble_;  // why persistent VIPs are off
  std::shared_ptr<TcpBudget> budget_;
  std::shared_ptr<ForwardShared> forwarding_;
  std::vector<InheritedSocket> activated_;  // sockets from systemd, until listeners_ has them
  bool is_activated_ = false;
  ListenerSet listeners_;
  UpstreamConfig upstream_;
  QuerySettings query_settings_;
  std::unique_ptr<EndpointLookups> lookups_;
  std::unique_ptr<resolver::NameResolver> resolver_;
  QueryLogging query_logging_;
  WorkerPool workers_;
  RunningSources sources_;
  HealthBoard health_;
  RegistryStreams registry_streams_;
  AdminEndpoint admin_;
  AdminEndpoint metrics_;
  AdminCounts admin_counts_;  // as they were a second ago
  AdminCounts metrics_counts_;
  OverloadWatch overload_;
  LoadHistory load_;
  LatencyWindow latency_;
  unsigned seconds_to_fade_;
  Supervisor supervisor_;
  Phase phase_ = Phase::Serving;
  ConfigReloader reloader_;
  LocalNamesFollower local_names_;
  std::array<FilePoll, kResolvConfPaths.size()> resolv_confs_;
  FilePoll config_file_;
  loop::Timer lameduck_;
  loop::Timer housekeeping_;
  loop::Mailbox from_workers_;
  std::array<Signal, 3> signals_;
  // Addresses of the configuration that are not ours yet, with the reason; others serve meanwhile.
  std::vector<std::string> unbound_;
  std::vector<std::string> troubles_;  // of files, upstream servers and objects, a second ago
  Time bind_again_at_;
  Time bind_until_;  // during the start; the past if nothing waits
  enum class Announced : std::uint8_t { Nothing, Serving, Ready };
  Announced announced_ = Announced::Nothing;
};

}  // namespace meshdns::dnsd
