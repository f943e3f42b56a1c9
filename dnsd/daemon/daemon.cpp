// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/daemon.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/daemon/client_settings.hpp"
#include "dnsd/daemon/configured_sources.hpp"
#include "dnsd/daemon/core_dumps.hpp"
#include "dnsd/daemon/daemon_shared.hpp"
#include "dnsd/daemon/signals.hpp"
#include "dnsd/daemon/state_file.hpp"
#include "dnsd/daemon/vip_setup.hpp"
#include "loop/check_loop.hpp"
#include "registry/base/descriptor_limit.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kResolvConfPoll{2'000};
constexpr std::chrono::milliseconds kConfigPoll{1'000};
// Bytes that unfinished queries and unread answers of all TCP clients may take, and the share that
// one worker has in any case.
constexpr std::size_t kHeldByTcp = 32 << 20;
constexpr std::size_t kLeastHeldByTcp = 1 << 20;
constexpr std::chrono::milliseconds kHousekeeping{1'000};
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

// Each question that waits for an upstream has a socket.  The soft limit, often 1,024, is there for
// programs that call select().
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(ConfigFiles files, Config config, Log& log) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(files), std::move(config), log));
  if (auto started = daemon->start(); !started) return std::unexpected(started.error());
  return daemon;
}

Daemon::Daemon(ConfigFiles files, Config config, Log& log)
    : config_(std::move(config)),
      log_(log),
      forward_log_(log),
      handover_(handover_hooks()),
      registry_(config_.mesh),
      cache_keeper_(log),
      cookie_secrets_(log, started_),
      publisher_(registry_.current()),
      feed_(registry_, log),
      mesh_names_(registry_),
      analysis_(registry_, log),
      answers_(registry_, log),
      state_directory_(log),
      state_keeper_(registry_, feed_, log),
      query_logging_(log),
      workers_(log),
      sources_(&loop_, feed_, started_),
      health_(started_),
      registry_streams_(&loop_, registry_),
      admin_(&loop_, "admin.listen", [this] { return admin_routes(parts()); }),
      metrics_(&loop_, "admin.metrics_listen", [this] { return metrics_routes(parts()); }),
      seconds_to_fade_(kFadeSeconds),
      reloader_(std::move(files), log),
      local_names_(log) {
  if (config_.server.watch_config) reloader_.remember_text();
}

Daemon::~Daemon() { shut_down(); }

Result<void> Daemon::start() {
  if (const int error = uv_loop_init(&loop_); error != 0)
    return fail(std::string("cannot create an event loop: ") + uv_strerror(error));
  loop_open_ = true;
  registry_.set_serial(static_cast<std::uint32_t>(unix_now()));
  registry_.set_publish(
      [this](std::shared_ptr<const registry::Snapshot> s) { publisher_.publish(std::move(s)); });
  registry_.set_clients(client_settings(config_.client));
  registry_.set_interrupt(is_end_asked);
  activated_ = sockets_from_systemd();
  is_activated_ = !activated_.empty();
  find_predecessor();
  // A daemon that this one replaces has it until it ends.
  if (!predecessor_) state_directory_.take(config_.state_dir, StateLock::kWait);
  choose_vip_allocator();
  feed_.set_listener([this] { update_state(); });
  raise_descriptor_limit();
  config_.cache = sized_cache(config_.cache, memory_limit_);
  tell_of_memory();
  budget_ = std::make_shared<TcpBudget>(tcp_limits(config_.server));
  forwarding_ = std::make_shared<ForwardShared>(config_.cache, forward_log_);
  cache_keeper_.open(state_directory_.path(), forwarding_);
  local_names_.read(config_);
  mesh_names_.set_local(local_names_.names());
  read_cookie_secrets();
  update_state();
  if (predecessor_)
    choose_upstream(config_.server.listen);
  else if (auto opened = open_listeners(); !opened)
    return opened;
  if (auto started = start_resolver(); !started) return started;
  state_keeper_.open(state_directory_.path(), saved_sources(config_));
  sources_.follow(config_);
  if (predecessor_) wait_beside_predecessor();
  if (listeners_.listeners().empty())
    if (auto opened = take_over_listeners(); !opened) return opened;
  if (!predecessor_) wait_for_sources();
  // Before the first answer: a program that has an answer may also ask us to end, and wait for
  // that.
  if (auto started = start_signals(); !started) return started;
  if (auto started = start_workers(); !started) return started;
  query_logging_.apply(config_.log, query_settings_, workers_);
  if (predecessor_) replace_predecessor();
  if (auto opened = open_admin(); !opened) return opened;
  publisher_.set_listener([this] { workers_.on_snapshot(); });
  if (auto started = start_timers(); !started) return started;
  if (!predecessor_) listen_for_successor();
  update_state();
  return {};
}

// A daemon that this one replaces closes its admin endpoint last.
Result<void> Daemon::open_admin() {
  auto opened = serve_admin();
  while (!opened && may_wait_to_bind()) opened = serve_admin();
  return opened;
}

Result<void> Daemon::serve_admin() {
  if (auto opened = admin_.serve_at(config_.admin.listen); !opened) return opened;
  return metrics_.serve_at(config_.admin.metrics_listen);
}

Result<void> Daemon::start_resolver() {
  auto lookups = EndpointLookups::open(&loop_, forwarding_, upstream_, config_.cache);
  if (!lookups) return std::unexpected(lookups.error());
  lookups_ = std::move(*lookups);
  resolver_ = std::make_unique<resolver::NameResolver>(
      &loop_, *lookups_, resolver::ResolverPolicy{},
      [] { return std::chrono::steady_clock::now(); }, feed_, &mesh_names_);
  feed_.set_resolver(resolver_.get());
  return {};
}

Result<void> Daemon::start_workers() {
  query_settings_ = make_query_settings();
  return workers_.start(config_, upstream_, query_settings_, listeners_,
                        {budget_, forwarding_, publisher_});
}

void Daemon::wait_for_sources() {
  const auto since_start = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  const auto limit = feed_.is_restored() ? kFirstReadLimitRestored - since_start : kFirstReadLimit;
  if (limit.count() <= 0) return;
  uv_update_time(&loop_);  // the start may have waited for another process
  bool over = false;
  loop::Timer timer(&loop_, [&over] { over = true; });
  timer.start(limit);
  while (!over && !sources_.are_complete() && !is_end_pending()) uv_run(&loop_, UV_RUN_ONCE);
}

void Daemon::choose_vip_allocator() {
  VipSetup setup = set_up_vips(config_, state_directory_, log_);
  vip_trouble_ = std::move(setup.trouble);
  if (setup.allocator) feed_.follow(registry_.set_vip_allocator(std::move(setup.allocator)));
}

void Daemon::follow_state_dir() {
  if (predecessor_) return;  // it has it
  const std::string before = state_directory_.path();
  state_directory_.take(config_.state_dir, std::chrono::milliseconds(0));
  const std::string now = state_directory_.path();
  cache_keeper_.move_to(now);
  state_keeper_.reconfigure(now, saved_sources(config_));
  if (now != before || !vip_trouble_.empty()) choose_vip_allocator();
}

Result<void> Daemon::start_signals() {
  const std::array<int, 3> numbers{SIGTERM, SIGINT, SIGHUP};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (const int error =
            signals_[i].open(&loop_, numbers[i], [this](int number) { on_signal(number); });
        error != 0)
      return fail(std::string("cannot receive signals: ") + uv_strerror(error));
  release_signals();
  return {};
}

void Daemon::on_signal(int number) {
  if (number == SIGHUP) return reloader_.reload_soon(&loop_, [this] { reload(); });
  stop();
  // The line comes last: /readyz says the same by then.
  log_.info("stopping", {{"signal", number == SIGTERM ? "SIGTERM" : "SIGINT"}});
}

Result<std::uint64_t> Daemon::request_reload() {
  if (reloader_.name().empty()) return fail("the daemon has no configuration file");
  if (phase_ == Phase::Draining) return fail("the daemon is stopping");
  reloader_.reload_soon(&loop_, [this] { reload(); });
  return reloader_.status().reloads + 1;
}

Result<void> Daemon::start_timers() {
  if (const int error = from_workers_.open(&loop_); error != 0)
    return fail(std::string("cannot be woken by workers: ") + uv_strerror(error));
  housekeeping_.open(&loop_, [this] { housekeep(); });
  housekeeping_.repeat(kHousekeeping);
  const auto follow_resolv_conf = [this] {
    if (config_.upstream.servers.empty()) apply_upstream();
  };
  for (std::size_t i = 0; i < resolv_confs_.size(); ++i)
    start_or_log(resolv_confs_[i], &loop_, kResolvConfPaths[i], kResolvConfPoll, follow_resolv_conf,
                 log_);
  watch_hosts_file();
  watch_config();
  if (config_.server.watch_config) reload_if_changed();  // it may have changed during the start
  return {};
}

// By choice: a program may write a file in parts, with a pause between them.
void Daemon::watch_config() {
  config_file_.close();
  if (!config_.server.watch_config || reloader_.path().empty()) return;
  start_or_log(
      config_file_, &loop_, reloader_.path(), kConfigPoll, [this] { reload_if_changed(); }, log_);
}

void Daemon::reload_if_changed() {
  reloader_.reload_changed_soon(&loop_, [this] { reload(); });
}

void Daemon::watch_hosts_file() {
  local_names_.watch(&loop_, config_, [this] { apply_query_settings(); });
}

void Daemon::reload() {
  if (phase_ == Phase::Draining) return;
  log_.info("reloading", {{"config", std::string_view(reloader_.name())}});
  supervisor_.reloading();
  if (auto next = reloader_.read()) apply_config(*std::move(next));
  sources_.rescan();
  publish_health();
  supervisor_.reloaded();
}

void Daemon::apply_config(Config next) {
  next.cache = sized_cache(next.cache, memory_limit_);
  const Config before = std::exchange(config_, std::move(next));
  if (config_.cache.size_bytes != before.cache.size_bytes) tell_of_memory();
  log_.set_level(config_.log.level);
  log_.set_format(config_.log.format);
  allow_core_dumps(config_.server.core_dumps);
  if (config_.server.workers != before.server.workers)
    log_.warn("a change of server.workers takes effect at the next start");
  if (config_.server.tcp != before.server.tcp) budget_->set_limits(tcp_limits(config_.server));
  unbound_.clear();
  bind();
  if (config_.log != before.log) query_logging_.apply(config_.log, query_settings_, workers_);
  local_names_.read(config_);
  read_cookie_secrets();
  watch_hosts_file();
  if (config_.server.watch_config != before.server.watch_config) watch_config();
  if (config_.server.handover != before.server.handover) listen_for_successor();
  apply_query_settings();
  if (config_.mesh != before.mesh) {
    feed_.follow(registry_.set_settings(config_.mesh));
    choose_vip_allocator();
  }
  if (config_.client != before.client) registry_.set_clients(client_settings(config_.client));
  forwarding_->cache.reconfigure(config_.cache);
  follow_state_dir();
  apply_upstream();
  sources_.follow(config_);
  update_state();
  for (const auto& section : changed_sections(before, config_))
    log_.info("configuration changed", {{"section", section}});
}

void Daemon::apply_upstream() {
  std::string warning;
  UpstreamConfig next = effective_upstream(config_, listeners_.addresses(), &warning);
  if (!warning.empty()) log_.write_folded(LogLevel::Warn, warning);
  // A resolv.conf that is being rewritten may name no server for a moment: keep the known ones.
  if (next.servers.empty() && !upstream_.servers.empty() && config_.upstream.servers.empty())
    next.servers = upstream_.servers;
  upstream_ = std::move(next);
  workers_.reconfigure(upstream_, config_.cache);
  lookups_->reconfigure(upstream_, config_.cache);
  resolver_->retry_failed();
}

void Daemon::read_cookie_secrets() {
  cookie_secrets_.follow(config_.server.cookies.secret_file, std::chrono::steady_clock::now());
}

QuerySettings Daemon::make_query_settings() const {
  QuerySettings settings = QuerySettings::from(config_);
  settings.local = local_names_.names();
  settings.cookie_secrets = cookie_secrets_.secrets();
  return settings;
}

void Daemon::apply_query_settings() {
  query_settings_ = make_query_settings();
  workers_.reconfigure(query_settings_);
  mesh_names_.set_local(local_names_.names());
  resolver_->recheck_all();
}

// First not ready, so that nobody sends us new clients; then no new queries, and those in flight
// are answered.  The admin endpoint tells of both.  A second wish cuts the first part short.
void Daemon::stop() {
  const bool is_first = phase_ == Phase::Serving;
  if (is_first) supervisor_.stopping();
  if (!is_first || handover_.successor_serves()) return drain_workers();
  std::chrono::milliseconds limit = config_.server.lameduck;
  if (handover_.has_successor()) {
    log_.info("the next daemon is not ready yet; waiting for it");
    limit = std::max<std::chrono::milliseconds>(limit, kSuccessorLimit);
  }
  if (limit.count() == 0) return drain_workers();
  phase_ = Phase::Lameduck;
  publish_health();
  lameduck_.open(&loop_, [this] { drain_workers(); });
  lameduck_.start(limit);
}

void Daemon::drain_workers() {
  if (std::exchange(phase_, Phase::Draining) == Phase::Draining) return;
  health_.beat(std::chrono::steady_clock::now());
  publish_health();
  stop_timers();
  registry_streams_.close();
  publisher_.set_listener({});
  const bool is_shared = predecessor_ || handover_.successor_serves();
  handover_.stop();
  workers_.drain(is_shared ? Waiting::LeftToOthers : Waiting::Answered,
                 [this] { from_workers_.post([this] { uv_stop(&loop_); }); });
  if (!predecessor_) return;
  // The daemon before this one answers again, and has the admin address again.
  admin_.close();
  metrics_.close();
  predecessor_.reset();
}

// Nothing is handed to workers that are about to end.
void Daemon::stop_timers() {
  housekeeping_.close();
  lameduck_.close();
  reloader_.stop();
  for (FilePoll& file : resolv_confs_) file.close();
  config_file_.close();
  local_names_.stop();
}

int Daemon::run() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  shut_down();
  return 0;
}

void Daemon::shut_down() {
  if (!loop_open_) return;
  loop_open_ = false;
  publisher_.set_listener({});
  workers_.end();
  registry_streams_.close();
  admin_.close();
  metrics_.close();
  handover_.stop();
  predecessor_.reset();
  query_logging_.close();
  analysis_.close();
  cache_keeper_.close();
  state_keeper_.close();
  sources_.clear();
  feed_.set_resolver(nullptr);
  resolver_.reset();
  if (lookups_) lookups_->close();
  lookups_.reset();
  stop_timers();
  from_workers_.close();
  close_signals();
  uv_run(&loop_, UV_RUN_DEFAULT);
  check_loop(uv_loop_close(&loop_), "close: a handle is open");
}

// libuv gives a signal without a Signal its first meaning back, which is to end the process.
void Daemon::close_signals() {
  hold_signals();
  for (Signal& signal : signals_) signal.close();
  ignore_late_signals();
}

ForwardingFacts Daemon::describe_forwarding(std::string_view wire_name, wire::Type type) const {
  return forwarding_facts(route_for(upstream_, wire_name), *forwarding_, wire_name, type,
                          uv_hrtime() / 1'000'000);
}

DaemonParts Daemon::parts() {
  return {.started = started_,
          .config = config_,
          .query_settings = query_settings_,
          .registry = registry_,
          .streams = registry_streams_,
          .findings = feed_.findings(),
          .analysis = analysis_.status(),
          .held_origins = feed_.held_origins(),
          .feed = feed_.counters(),
          .resolver = *resolver_,
          .forwarding = *forwarding_,
          .log = log_,
          .health = health_,
          .load = load_,
          .latency = latency_,
          .reloads = reloader_.status(),
          .http = admin_.counters(),
          .answers = [this]() -> const AnswerHistory& { return answers_.history(); },
          .readiness = [this] { return readiness(); },
          .workers = [this] { return workers_.status(); },
          .failing_names = [this](std::size_t limit) { return workers_.failing_names(limit); },
          .top = [this](std::size_t limit) { return workers_.top(limit); },
          .sources = [this] { return sources_.reports(); },
          .state = [this] { return state_keeper_.status(); },
          .query_logs = [this] { return query_logging_.counts(); },
          .listening = [this] { return listeners_.addresses(); },
          .unbound = [this] { return unbound_; },
          .request_reload = [this] { return request_reload(); },
          .describe_forwarding =
              [this](std::string_view wire_name, wire::Type type) {
                return describe_forwarding(wire_name, type);
              }};
}

}  // namespace meshdns::dnsd
