// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/daemon.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>

#include "dnsd/config/config.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/daemon/signals.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/mesh/configured_sources.hpp"
#include "dnsd/mesh/engine.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

// Bytes that unfinished queries and unread answers of all TCP clients may take, and the share that
// one worker has in any case.
constexpr std::size_t kHeldByTcp = 32 << 20;
constexpr std::size_t kLeastHeldByTcp = 1 << 20;

// The limits of clients' TCP connections.  A part of the file descriptors that this process may
// have now is kept for other uses.
TcpLimits tcp_limits(const ServerConfig& server) {
  const TcpConfig& config = server.tcp;
  TcpLimits limits;
  limits.max_held = std::max(kHeldByTcp / worker_count(server), kLeastHeldByTcp);
  limits.max_connections = config.max_connections;
  limits.max_connections_per_client = config.max_connections_per_client;
  limits.idle_timeout = config.idle_timeout;
  // Clients hold descriptors for minutes; questions to upstreams need some for milliseconds.
  limits.reserved_files = std::max(limits.reserved_files, descriptor_limit() / 4);
  return limits;
}

constexpr std::chrono::milliseconds kHousekeeping{1'000};
// The interval at which a start looks whether the daemon that it replaces still lives.
constexpr std::chrono::milliseconds kPredecessorPoll{50};
// The time that the first query may have to wait for the sources' first read.  The sockets are
// bound by then, so that the kernel queues queries.  Without the wait, names of the mesh would be
// forwarded for some milliseconds.
constexpr std::chrono::milliseconds kFirstReadLimit{1'000};
// With a state of an earlier run there are answers at once; sources that are read this soon after
// the start spare clients the old ones.
constexpr std::chrono::milliseconds kFirstReadLimitRestored{100};
// The time after SIGTERM for the next daemon, which is there already, to become ready.  Kubernetes
// kills a Pod after 30 s.
constexpr std::chrono::seconds kSuccessorLimit{20};

// After this time, the log and the supervisor hear that the daemon answers, though a source has not
// been read: it answers all queries that do not depend on that source.
constexpr std::chrono::seconds kServingAnyway{5};

// libuv ends the process without a word when it has too few for its first loop, 7 of them today.
constexpr rlim_t kFewestDescriptors = 16;

// Each question that waits for an upstream has a socket.  The soft limit, often 1,024, is there for
// programs that call select().
Result<void> raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kFewestDescriptors) return {};
  return fail("too many open files: the limit of " + std::to_string(limit.rlim_max) +
              " is below the least, " + std::to_string(kFewestDescriptors));
}

Config with_sized_cache(Config config, std::optional<std::uint64_t> memory_limit) {
  config.cache = sized_cache(config.cache, memory_limit);
  return config;
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(ConfigFiles files, Config config, Log& log) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(files), std::move(config), log));
  if (auto started = daemon->start(); !started) return std::unexpected(started.error());
  return daemon;
}

Daemon::Daemon(ConfigFiles files, Config config, Log& log)
    : config_(with_sized_cache(std::move(config), memory_limit_)),
      log_(log),
      forward_log_(log),
      upgrade_(&loop_, config_, phase_, addresses_, workers_, log,
               {.on_alone = [this] { follow_state_dir(); },
                .on_successor_changed = [this] { on_successor_changed(); }}),
      engine_(&loop_, config_, forward_log_, log, started_),
      query_settings_(config_, log, started_),
      upstream_(config_, log),
      reach_(log),
      query_logging_(log),
      workers_(log),
      kernel_(config_, engine_.registry, workers_, log),
      registry_streams_(&loop_, engine_.registry),
      admin_(&loop_, "admin.listen", [this] { return admin_routes(shown()); }),
      metrics_(&loop_, "admin.metrics_listen", [this] { return metrics_routes(shown()); }),
      addresses_(config_, workers_, admin_, metrics_, log),
      reloader_(std::move(files), log),
      health_(engine_, upstream_.current(), started_) {
  engine_.registry.set_interrupt(is_end_asked);
  upstream_.use(engine_.server_names);
  if (config_.server.watch_config) reloader_.remember_text();
}

Daemon::~Daemon() { shut_down(); }

// --- the start -----------------------------------------------------------------------------------

Result<void> Daemon::start() {
  if (auto raised = raise_descriptor_limit(); !raised) return raised;
  if (const int error = uv_loop_init(&loop_); error != 0)
    return fail(std::string("cannot create an event loop: ") + uv_strerror(error));
  loop_open_ = true;
  addresses_.inherit(sockets_from_systemd());
  upgrade_.find_predecessor();
  // A daemon that this one replaces has it until it ends.
  if (!upgrade_.has_predecessor()) engine_.kept.take();
  engine_.kept.choose_vip_allocator();
  engine_.feed.set_listener([this] { update_state(); });
  engine_.analysis.set_denied_names([this] { return workers_.often_denied(); });
  tell_of_memory(config_.cache, memory_limit_, log_);
  budget_ = std::make_shared<TcpBudget>(tcp_limits(config_.server));
  query_settings_.use([this](const registry::View& view, std::string_view name) {
    return engine_.past_of(view, name);
  });
  query_settings_.read_files();
  query_settings_.renew();
  update_state();
  if (auto opened = open_addresses(); !opened) return opened;
  if (auto started = engine_.start(upstream_.current(), query_settings_.settings()); !started)
    return started;
  look_up_servers();
  engine_.open();
  if (upgrade_.has_predecessor()) {
    wait_beside_predecessor();
    if (auto opened = take_over_addresses(); !opened) return opened;
  }
  if (!upgrade_.has_predecessor()) wait_for_sources();
  // Before the first answer: a program that has an answer may also ask us to end, and wait for
  // that.
  if (auto started = signals_.open(&loop_, [this](int number) { on_signal(number); }); !started)
    return started;
  if (auto started = start_workers(); !started) return started;
  if (upgrade_.has_predecessor()) upgrade_.replace_predecessor();
  addresses_.open_admin();
  engine_.set_listener([this] {
    kernel_.on_published();
    workers_.on_snapshot();
  });
  if (auto started = start_timers(); !started) return started;
  if (!upgrade_.has_predecessor()) upgrade_.listen_for_successor();
  update_state();
  return {};
}

// A daemon that this one replaces goes on to use the addresses for now.
Result<void> Daemon::open_addresses() {
  if (!upgrade_.has_predecessor())
    if (auto opened = addresses_.open(); !opened) return opened;
  choose_upstream(own_addresses());
  return {};
}

// No limit: the other daemon answers meanwhile.  Health checks of this one see that it lives.
void Daemon::wait_beside_predecessor() {
  addresses_.open_free_admin();
  bool is_told = false;
  loop::Timer timer(&loop_, [this] {
    health_.board().beat(std::chrono::steady_clock::now());
    publish_health();
  });
  timer.repeat(kPredecessorPoll);
  while (!engine_.sources.are_complete() && !upgrade_.has_predecessor_ended() &&
         !is_end_pending()) {
    uv_run(&loop_, UV_RUN_ONCE);
    if (is_told || std::chrono::steady_clock::now() - started_ < kServingAnyway) continue;
    is_told = true;
    log_.warn("still reading the sources; the other daemon answers meanwhile",
              {{"reason", health_.readiness().first_reason()}});
  }
}

Result<void> Daemon::take_over_addresses() {
  if (is_end_pending()) return fail("told to end before the sockets were taken over");
  auto handed = upgrade_.take_sockets();
  if (!handed) follow_state_dir();
  auto opened = handed ? addresses_.take_over(*std::move(handed)) : addresses_.open();
  if (opened) choose_upstream(addresses_.addresses());
  return opened;
}

void Daemon::wait_for_sources() {
  const auto since_start = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  const auto limit =
      engine_.feed.is_restored() ? kFirstReadLimitRestored - since_start : kFirstReadLimit;
  if (limit.count() <= 0) return;
  uv_update_time(&loop_);  // the start may have waited for another process
  bool over = false;
  loop::Timer timer(&loop_, [&over] { over = true; });
  timer.start(limit);
  while (!over && !engine_.sources.are_complete() && !is_end_pending()) uv_run(&loop_, UV_RUN_ONCE);
}

Result<void> Daemon::start_workers() {
  query_settings_.renew();
  auto started = workers_.start(config_, upstream_.current(), query_settings_.settings(),
                                addresses_.listeners(),
                                {budget_, engine_.forwarding, engine_.publisher, reach_.probes()});
  if (!started) return started;
  query_logging_.apply(config_.log, query_settings_.settings(), workers_, kernel_);
  workers_.count_asked(config_.dependencies.record);
  return {};
}

Result<void> Daemon::start_timers() {
  if (const int error = from_workers_.open(&loop_); error != 0)
    return fail(std::string("cannot be woken by workers: ") + uv_strerror(error));
  housekeeping_.open(&loop_, [this] { housekeep(); });
  housekeeping_.repeat(kHousekeeping);
  // A worker that hangs leaves queries unanswered: the supervisor is to start us anew.
  watchdog_.open(&loop_, [this] {
    if (workers_.complaint().empty()) supervisor_.feed_watchdog();
  });
  if (const auto interval = Supervisor::watchdog_interval()) watchdog_.repeat(*interval);
  kernel_.start(&loop_);
  follow_kernel();
  upstream_.watch(&loop_, [this] { apply_upstream(); });
  query_settings_.watch(&loop_, [this] { apply_query_settings(); });
  watch_config();
  if (config_.server.watch_config)  // it may have changed during the start
    reloader_.reload_changed_soon(&loop_, [this] { reload(); });
  return {};
}

ShownDaemon Daemon::shown() {
  return {.engine = engine_,
          .streams = registry_streams_,
          .health = health_.board(),
          .upstream = upstream_.current(),
          .query_settings = query_settings_.settings(),
          .history = history_,
          .reloads = reloader_.status(),
          .http = admin_.counters(),
          .dependencies = engine_.dependencies,
          .status =
              [this] {
                return DaemonStatus{workers_.status(), kernel_.status(), query_logging_.counts(),
                                    addresses_.addresses(), addresses_.unbound()};
              },
          .frequent = [this](std::size_t limit) { return workers_.frequent(limit); },
          .request_reload = [this] { return request_reload(); }};
}

// --- signals and reloads -------------------------------------------------------------------------

void Daemon::on_signal(int number) {
  if (number == SIGHUP) return reloader_.reload_soon(&loop_, [this] { reload(); });
  stop();
  // The line comes last: /readyz says the same by then.
  log_.info("stopping", {{"signal", number == SIGTERM ? "SIGTERM" : "SIGINT"}});
}

Result<std::uint64_t> Daemon::request_reload() {
  if (reloader_.name().empty()) return fail("the daemon has no configuration file");
  if (workers_.size() == 0) return fail("the daemon is starting");
  if (phase_ == Phase::Draining) return fail("the daemon is stopping");
  reloader_.reload_soon(&loop_, [this] { reload(); });
  return reloader_.status().reloads + 1;
}

// By choice: a program may write a file in parts, with a pause between them.
void Daemon::watch_config() {
  reloader_.stop_watching();
  if (config_.server.watch_config) reloader_.watch(&loop_, [this] { reload(); });
}

void Daemon::reload() {
  if (phase_ == Phase::Draining) return;
  log_.info("reloading", {{"config", std::string_view(reloader_.name())}});
  supervisor_.reloading();
  if (auto next = reloader_.read()) apply_config(*std::move(next));
  engine_.sources.rescan();
  publish_health();
  supervisor_.reloaded();
}

void Daemon::apply_config(Config next) {
  const Config before = std::exchange(config_, with_sized_cache(std::move(next), memory_limit_));
  if (config_.cache.size_bytes != before.cache.size_bytes)
    tell_of_memory(config_.cache, memory_limit_, log_);
  log_.set_level(config_.log.level);
  log_.set_format(config_.log.format);
  allow_core_dumps(config_.server.core_dumps);
  if (config_.server.workers != before.server.workers)
    log_.warn("a change of server.workers takes effect at the next start");
  if (config_.server.tcp != before.server.tcp) budget_->set_limits(tcp_limits(config_.server));
  addresses_.forget_failures();
  bind();
  if (config_.log != before.log)
    query_logging_.apply(config_.log, query_settings_.settings(), workers_, kernel_);
  query_settings_.read_files();
  query_settings_.watch(&loop_, [this] { apply_query_settings(); });
  if (config_.server.watch_config != before.server.watch_config) watch_config();
  if (config_.server.handover != before.server.handover) upgrade_.listen_for_successor();
  apply_query_settings();
  if (config_.dependencies.record != before.dependencies.record)
    workers_.count_asked(config_.dependencies.record);
  engine_.apply(before);
  follow_state_dir();
  apply_upstream();
  engine_.sources.follow(config_);
  update_state();
  for (const auto& section : changed_sections(before, config_))
    log_.info("configuration changed", {{"section", section}});
}

// Names that an earlier run has looked up are used at once.
void Daemon::look_up_servers() {
  follow_server_names();
  if (!engine_.server_names.has_any()) return;
  choose_upstream(own_addresses());
}

void Daemon::choose_upstream(const std::vector<SocketAddress>& listening) {
  upstream_.choose(listening);
  query_settings_.use_links(upstream_.current().link_zones);
  engine_.use(upstream_.current());
}

// The predecessor still has the configured addresses, which this daemon will take over.
std::vector<SocketAddress> Daemon::own_addresses() const {
  return upgrade_.has_predecessor() ? config_.server.listen : addresses_.addresses();
}

void Daemon::follow_server_names() {
  engine_.server_names.follow(&loop_, config_.upstream, upstream_.system(own_addresses()),
                              state_file(engine_.kept.path(), "servers"),
                              [this] { apply_upstream(); });
}

void Daemon::apply_upstream() {
  follow_server_names();
  upstream_.follow(addresses_.addresses());
  engine_.use(upstream_.current());
  workers_.reconfigure(upstream_.current(), config_.cache);
  if (query_settings_.use_links(upstream_.current().link_zones)) apply_query_settings();
}

void Daemon::apply_query_settings() {
  query_settings_.renew();
  workers_.reconfigure(query_settings_.settings());
  kernel_.on_settings();
  engine_.resolution.reconfigure(query_settings_.settings());
}

// A next daemon that serves has the addresses.
void Daemon::bind() {
  if (upgrade_.successor_serves()) return;
  addresses_.bind();
  publish_health();
}

// A daemon before this one that still lives has the directory.
void Daemon::follow_state_dir() {
  if (!upgrade_.has_predecessor()) engine_.kept.follow();
}

// --- while it runs -------------------------------------------------------------------------------

void Daemon::update_state() {
  const bool was_restored = engine_.registry.current()->sources.from_state_dir;
  engine_.update();
  if (was_restored && !engine_.feed.is_restored())
    log_.info("all sources have been read; dropped resources that were only in the saved state");
  publish_health();
  announce_when_due();
}

void Daemon::publish_health() {
  std::vector<Problem> degraded;
  for (const auto& failure : addresses_.unbound())
    degraded.push_back({"not bound: " + failure, "some addresses are not served"});
  for (const auto& trouble : reach_.troubles())
    degraded.push_back({trouble, "queries to some addresses do not reach this daemon"});
  if (!addresses_.metrics_trouble().empty())
    degraded.push_back({addresses_.metrics_trouble(), "metrics may not be readable"});
  if (!upgrade_.trouble().empty())
    degraded.push_back({upgrade_.trouble(), "an upgrade loses queries"});
  if (!reloader_.status().ok)
    degraded.push_back(
        {"config: the last reload failed; the previous configuration is in use; meshdnsd check has "
         "the errors",
         "the configuration on the disk is not in use"});
  Problem not_ready;
  if (upgrade_.successor_serves())
    not_ready = {"the next daemon answers in place of this one", "this daemon answers no queries"};
  if (phase_ != Phase::Serving) not_ready = {"stopping", "this daemon is ending"};
  health_.publish({std::move(not_ready), workers_.complaint(), std::move(degraded)});
}

void Daemon::announce_when_due() {
  if (announced_ == Announced::Ready || workers_.size() == 0) return;
  const bool is_ready = health_.readiness().is_ready();
  if (!is_ready && (announced_ == Announced::Serving ||
                    std::chrono::steady_clock::now() - started_ < kServingAnyway))
    return;
  const bool is_first = announced_ == Announced::Nothing;
  if (is_first) supervisor_.ready(health_.status_line());
  announced_ = is_ready ? Announced::Ready : Announced::Serving;
  if (is_ready)
    log_.announce("ready: " + facts());
  else
    log_.warn("not ready yet: " + facts(), {{"reason", health_.readiness().first_reason()}});
  if (!is_first) return;
  engine_.answers.begin();
  show_first_steps();
}

std::string Daemon::facts() const {
  const auto& snapshot = *engine_.registry.current();
  return "listen=" + joined(addresses_.addresses()) +
         " workers=" + std::to_string(workers_.size()) +
         " resources=" + std::to_string(snapshot.resources.size()) +
         " hosts=" + std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) +
         " admin=" + addresses_.admin_text();
}

void Daemon::show_first_steps() const {
  const std::vector<SocketAddress> listen = addresses_.addresses();
  if (!is_at_terminal() || config_.log.format != LogFormat::Text || listen.empty()) return;
  log_.flush();
  show_at_terminal(first_steps(*engine_.registry.current(), listen, addresses_.admin_addresses()));
}

void Daemon::housekeep() {
  const Time now = std::chrono::steady_clock::now();
  announce_when_due();
  if (!engine_.kept.trouble().empty()) follow_state_dir();
  if (addresses_.is_due(now) || addresses_.have_metrics_files_changed()) bind();
  if (!upgrade_.successor_serves())  // which deals the sockets out
    workers_.watch(addresses_.listeners(), now);
  if (query_settings_.tick(now)) apply_query_settings();
  follow_kernel();
  engine_.count(workers_.take_asked());
  engine_.tick(now);
  start_memory_.tick();
  log_troubles(now);
  history_.observe(workers_.totals(), engine_.forwarding->upstreams, now);
  workers_.fade_failing_names();
  watch_reach(now);
  health_.look(now, reloader_.path(), kernel_.trouble(), history_.latency);
  publish_health();
  supervisor_.set_status(health_.status_line());
}

void Daemon::log_troubles(Time now) {
  log_.write_fold_counts();
  const auto degradations =
      degradations_of(workers_, query_logging_, engine_.forwarding->cache, log_);
  for (const auto& warning : overload_.observe(degradations, now))
    log_.warn(warning.what, {{"count", warning.count}});
  workers_.tell_of_limited_clients();
  admin_.log_troubles(log_);
  metrics_.log_troubles(log_);
}

// While the next daemon serves, the maps are its own.
void Daemon::follow_kernel() {
  if (upgrade_.successor_serves()) return kernel_.close();
  kernel_.tick(addresses_.addresses());
}

void Daemon::watch_reach(Time now) {
  const std::uint64_t dropped = workers_.dropped_queries();
  const bool is_shared = upgrade_.has_predecessor() || upgrade_.has_successor();
  reach_.tick(now, addresses_.udp_addresses(),
              !is_shared && workers_.complaint().empty() && dropped == dropped_queries_);
  dropped_queries_ = dropped;
}

// --- the end -------------------------------------------------------------------------------------

// First not ready, so that nobody sends us new clients; then no new queries, and those in flight
// are answered.  The admin endpoint tells of both.  A second wish cuts the first part short.
void Daemon::stop() {
  const bool is_first = phase_ == Phase::Serving;
  if (is_first) supervisor_.stopping();
  if (!is_first || upgrade_.successor_serves()) return drain_workers();
  std::chrono::milliseconds limit = config_.server.lameduck;
  if (upgrade_.has_successor()) {
    log_.info("the next daemon is not ready yet; waiting for it");
    limit = std::max<std::chrono::milliseconds>(limit, kSuccessorLimit);
  }
  if (limit.count() == 0) return drain_workers();
  phase_ = Phase::Lameduck;
  publish_health();
  lameduck_.open(&loop_, [this] { drain_workers(); });
  lameduck_.start(limit);
}

// Nothing is left to wait for, if this daemon was told to stop before.
void Daemon::on_successor_changed() {
  if (phase_ == Phase::Lameduck) return drain_workers();
  publish_health();
}

void Daemon::drain_workers() {
  if (std::exchange(phase_, Phase::Draining) == Phase::Draining) return;
  health_.board().beat(std::chrono::steady_clock::now());
  publish_health();
  stop_timers();
  registry_streams_.close();
  kernel_.stop();
  engine_.publisher.set_listener({});
  const bool is_shared = upgrade_.has_predecessor() || upgrade_.successor_serves();
  upgrade_.stop();
  workers_.drain(is_shared ? Waiting::LeftToOthers : Waiting::Answered,
                 [this] { from_workers_.post([this] { uv_stop(&loop_); }); });
  if (!upgrade_.has_predecessor()) return;
  // The daemon before this one answers again, and has the admin address again.
  addresses_.close_admin();
  upgrade_.leave_to_predecessor();
}

// Nothing is handed to workers that are about to end.
void Daemon::stop_timers() {
  housekeeping_.close();
  watchdog_.close();
  lameduck_.close();
  reloader_.stop();
  upstream_.stop();
  query_settings_.stop();
}

int Daemon::run() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  shut_down();
  return 0;
}

void Daemon::shut_down() {
  if (!loop_open_) return;
  loop_open_ = false;
  kernel_.stop();
  engine_.publisher.set_listener({});
  workers_.end();
  engine_.count(workers_.take_asked());
  registry_streams_.close();
  addresses_.close_admin();
  upgrade_.stop();
  upgrade_.leave_to_predecessor();
  query_logging_.close();
  engine_.close();
  stop_timers();
  from_workers_.close();
  signals_.close();
  uv_run(&loop_, UV_RUN_DEFAULT);
  check_loop(uv_loop_close(&loop_), "close: a handle is open");
}

}  // namespace meshdns::dnsd
