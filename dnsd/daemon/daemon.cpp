#include "dnsd/daemon/daemon.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <thread>

#include "dnsd/config/load.hpp"
#include "dnsd/config/resolv_conf.hpp"
#include "dnsd/config/text_file.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/daemon/admin_endpoint.hpp"
#include "dnsd/daemon/admin_routes.hpp"
#include "dnsd/daemon/cache_keeper.hpp"
#include "dnsd/daemon/client_settings.hpp"
#include "dnsd/daemon/configured_sources.hpp"
#include "dnsd/daemon/cookie_secret_keeper.hpp"
#include "dnsd/daemon/forward_log.hpp"
#include "dnsd/daemon/liveness.hpp"
#include "dnsd/daemon/memory_limit.hpp"
#include "dnsd/daemon/overload_watch.hpp"
#include "dnsd/daemon/query_log_writer.hpp"
#include "dnsd/daemon/state_file.hpp"
#include "dnsd/daemon/state_keeper.hpp"
#include "dnsd/daemon/supervisor.hpp"
#include "dnsd/daemon/upstream_servers.hpp"
#include "dnsd/daemon/worker_unit.hpp"
#include "dnsd/dnstap/dnstap_log.hpp"
#include "dnsd/log/printable.hpp"
#include "dnsd/net/listeners.hpp"
#include "registry/base/descriptor_limit.hpp"
#include "registry/vip/persistent_vips.hpp"
#include "resolver/cares_lookup.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kDrainLimit{2'000};
constexpr unsigned kResolvConfPollMs = 2'000;
constexpr unsigned kFadeSeconds = 60;
constexpr unsigned kHostsFilePollMs = 500;
// A configuration is read once it has been the same for so long, or after so many looks at it.
constexpr std::uint64_t kSteadyMs = 25;
constexpr int kSteadyTries = 20;
// What unfinished queries and unread answers of all TCP clients may take, and those of one worker's
// in any case (reliability.md R13).
constexpr std::size_t kHeldByTcp = 32 << 20;
constexpr std::size_t kLeastHeldByTcp = 1 << 20;
constexpr std::uint64_t kHousekeepingMs = 1'000;
// How long the first query may have to wait for the sources' first read; the sockets are bound by
// then, so that what arrives is queued.  Without it, names of the mesh would be forwarded for some
// milliseconds.
constexpr std::chrono::milliseconds kFirstReadLimit{1'000};
// With a state of an earlier run there are answers at once; sources that are read this soon after
// the start spare clients the old ones.
constexpr std::chrono::milliseconds kFirstReadLimitRestored{100};
// How soon an address that could not be bound is tried again: its other user may be about to end.
constexpr std::chrono::seconds kBindAgain{5};
// When we say that we are ready though a source is not: what does not depend on it is answered.
constexpr std::chrono::seconds kReadyAnyway{5};

unsigned worker_count(const ServerConfig& server) {
  return server.workers != 0 ? server.workers : std::max(1U, std::thread::hardware_concurrency());
}

TcpLimits tcp_limits(const ServerConfig& server) {
  const TcpConfig& config = server.tcp;
  TcpLimits limits;
  limits.max_held = std::max(kHeldByTcp / worker_count(server), kLeastHeldByTcp);
  limits.max_connections = config.max_connections;
  limits.max_connections_per_client = config.max_connections_per_client;
  limits.idle_timeout = config.idle_timeout;
  // What clients hold for minutes must not be what questions to upstreams need for milliseconds.
  limits.reserved_files = std::max(limits.reserved_files, descriptor_limit() / 4);
  return limits;
}

std::string joined(std::span<const SocketAddress> addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : ",") + address.to_string();
  return text;
}

template <typename Handle>
uv_handle_t* as_handle(Handle* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
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

class Daemon::Impl {
 public:
  Impl(std::string config_path, Config config, Log& log)
      : config_path_(std::move(config_path)),
        config_(std::move(config)),
        log_(log),
        forward_log_(log),
        registry_(config_.mesh),
        cache_keeper_(log),
        cookie_secrets_(log, std::chrono::steady_clock::now()),
        publisher_(registry_.current()),
        feed_(registry_, log),
        state_keeper_(registry_, feed_, log),
        admin_(&loop_, [this] { return admin_routes(*self_); }) {}

  ~Impl() { shut_down(); }

  // `self` is the daemon that this is of, for the admin pages.
  Result<void> start(Daemon& self);
  int run();
  void stop();
  void reload();

  Readiness readiness() const;
  std::vector<registry::SourceStatus> sources() const;
  std::vector<WorkerStatus> workers() const;
  ForwardingFacts describe_forwarding(std::string_view wire_name, wire::Type type) const {
    return forwarding_facts(route_for(upstream_, wire_name), *forwarding_, wire_name, type,
                            uv_hrtime() / 1'000'000);
  }

 private:
  friend class Daemon;

  Result<void> open_listeners();
  Result<void> start_resolver();
  Result<void> start_workers();
  void start_sources();
  void wait_for_sources();
  bool are_sources_complete() const;
  bool is_synced() const;
  void choose_vip_allocator();
  void start_signals();
  void start_timers();
  void reload_soon();
  void wait_for_steady_config();
  void announce_when_ready();
  void update_state();
  void size_cache(Config& config) const;
  void tell_of_memory() const;
  void apply_config(Config next);
  void bind();
  void apply_listeners();
  void apply_upstream();
  void apply_query_log();
  void apply_dnstap();
  DnstapCounts dnstap_counts() const;
  void read_cookie_secrets();
  QuerySettings make_query_settings() const;
  void apply_query_settings();
  void follow_resolv_conf();
  void follow_hosts_file();
  void read_hosts();
  void read_local_names();
  void drain_workers();
  void stop_timers();
  void housekeep();
  void watch_workers();
  void avoid_those_that_stand_still();
  void tell_of_overload();
  void tell_of_limited_clients();
  void tell_of_admin_clients();
  void keep_history();
  std::string status_line() const;
  void shut_down();

  const std::string config_path_;
  const std::optional<std::uint64_t> memory_limit_ = cgroup_memory_limit();
  Config config_;
  Log& log_;
  ForwardLog forward_log_;
  uv_loop_t loop_{};
  bool loop_open_ = false;
  registry::Registry registry_;
  CacheKeeper cache_keeper_;
  CookieSecretKeeper cookie_secrets_;
  registry::Publisher publisher_;
  RegistryFeed feed_;
  StateKeeper state_keeper_;
  std::shared_ptr<TcpBudget> budget_;
  std::shared_ptr<ForwardShared> forwarding_;
  ListenerSet listeners_;
  UpstreamConfig upstream_;
  QuerySettings query_settings_;
  std::unique_ptr<resolver::CaresBackend> lookups_;
  std::unique_ptr<resolver::NameResolver> resolver_;
  std::vector<std::unique_ptr<WorkerUnit>> units_;
  struct RunningSource {
    SourceConfig config;
    std::optional<registry::kubernetes::WatchNeeds> needs;  // of Kubernetes sources
    std::string name;
    std::unique_ptr<registry::Source> source;
  };
  std::vector<RunningSource> sources_;
  Daemon* self_ = nullptr;
  AdminEndpoint admin_;
  HttpCounters admin_counters_;          // as they were a second ago
  std::unique_ptr<Log> query_log_;       // null until log.queries asks for it
  std::shared_ptr<FrameStream> dnstap_;  // null until log.dnstap asks for it
  DnstapCounts dnstap_before_;           // of streams that were closed
  Liveness liveness_;
  std::vector<std::size_t> avoided_;  // workers that get no new queries
  OverloadWatch overload_;
  LoadHistory load_;
  struct Freshness {
    std::uint64_t changes = 0;
    std::chrono::steady_clock::time_point at;
  };
  std::map<std::string, Freshness> freshness_;  // by source
  unsigned seconds_to_fade_ = kFadeSeconds;
  Supervisor supervisor_;
  enum class Phase : std::uint8_t { Serving, Lameduck, Draining };
  Phase phase_ = Phase::Serving;
  uv_timer_t lameduck_{};
  uv_async_t drained_{};
  std::thread drain_waiter_;  // for the workers' ends, while this thread's loop goes on
  std::array<uv_signal_t, 3> signals_{};
  uv_timer_t housekeeping_{};
  uv_timer_t reload_timer_{};
  std::string config_text_;  // as it was when a reload was last put off
  int reload_tries_ = 0;
  std::array<uv_fs_poll_t, kResolvConfPaths.size()> resolv_confs_{};
  uv_fs_poll_t hosts_file_{};
  HostsFile hosts_;
  std::shared_ptr<const LocalNames> local_names_;
  std::vector<uv_handle_t*> handles_;
  ReloadStatus reloads_;
  // Addresses of the configuration that are not ours yet, with the reason; others serve meanwhile.
  std::vector<std::string> unbound_;
  std::chrono::steady_clock::time_point bind_again_at_;
  bool announced_ = false;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

Result<void> Daemon::Impl::start(Daemon& self) {
  self_ = &self;
  if (uv_loop_init(&loop_) != 0) return fail("cannot make an event loop");
  loop_open_ = true;
  registry_.set_clock(unix_now);
  registry_.set_publish(
      [this](std::shared_ptr<const registry::Snapshot> s) { publisher_.publish(std::move(s)); });
  registry_.set_clients(client_settings(config_.client));
  choose_vip_allocator();
  feed_.set_listener([this] { update_state(); });
  raise_descriptor_limit();
  size_cache(config_);
  tell_of_memory();
  budget_ = std::make_shared<TcpBudget>(tcp_limits(config_.server));
  forwarding_ = std::make_shared<ForwardShared>(config_.cache, forward_log_);
  cache_keeper_.open(config_.state_dir, forwarding_);
  read_local_names();
  read_cookie_secrets();
  update_state();
  if (auto opened = open_listeners(); !opened) return opened;
  if (auto started = start_resolver(); !started) return started;
  state_keeper_.open(config_.state_dir, saved_sources(config_));
  start_sources();
  wait_for_sources();
  // Before anything is answered: who has an answer may also ask us to end, and is then waited for.
  start_signals();
  if (auto started = start_workers(); !started) return started;
  apply_query_log();
  if (auto opened = admin_.serve_at(config_.admin.listen); !opened) return opened;
  publisher_.set_listener([this] {
    for (const auto& unit : units_) unit->on_snapshot();
  });
  start_timers();
  update_state();
  return {};
}

Result<void> Daemon::Impl::open_listeners() {
  const unsigned workers = worker_count(config_.server);
  auto inherited = ListenerSet::adopt(sockets_from_systemd(), workers);
  if (!inherited) return std::unexpected(inherited.error());
  auto change = inherited->change_to(config_.server.listen);
  if (!change.failures.empty()) return std::unexpected(change.failures.front());
  listeners_ = std::move(change.set);
  std::string warning;
  upstream_ = effective_upstream(config_, listeners_.addresses(), &warning);
  if (!warning.empty()) log_.warn(warning);
  return {};
}

Result<void> Daemon::Impl::start_resolver() {
  auto backend = resolver::CaresBackend::open(
      &loop_, {[this](std::string_view host) { return plain_servers_for(upstream_, host); },
               upstream_.timeout});
  if (!backend) return std::unexpected(backend.error());
  lookups_ = std::move(*backend);
  resolver_ = std::make_unique<resolver::NameResolver>(
      &loop_, *lookups_, resolver::ResolverPolicy{},
      [] { return std::chrono::steady_clock::now(); }, feed_);
  feed_.set_resolver(resolver_.get());
  return {};
}

Result<void> Daemon::Impl::start_workers() {
  query_settings_ = make_query_settings();
  const unsigned count = listeners_.workers();
  for (unsigned i = 0; i < count; ++i) {
    WorkerOptions options;
    options.index = i;
    options.cpu = config_.server.cpu_affinity ? static_cast<int>(i) : -1;
    auto unit = WorkerUnit::create(options, budget_, forwarding_, publisher_, upstream_,
                                   config_.cache, query_settings_);
    if (!unit) return std::unexpected(unit.error());
    units_.push_back(std::move(*unit));
  }
  for (auto& unit : units_)
    if (auto started = unit->start(listeners_); !started) return started;
  return {};
}

void Daemon::Impl::start_sources() {
  std::vector<RunningSource> kept;
  std::set<std::string> names;
  for (const auto& source : config_.sources) {
    const std::string name = source_name(source);
    names.insert(name);
    auto needs = watch_needs(config_, source);
    const auto running = std::ranges::find_if(sources_, [&](const RunningSource& r) {
      return r.source && r.config == source && r.needs == needs;
    });
    if (running != sources_.end()) {
      kept.push_back(std::move(*running));
      continue;
    }
    auto made = make_source(&loop_, config_, source, feed_);
    made->start();
    kept.push_back({source, std::move(needs), name, std::move(made)});
  }
  sources_ = std::move(kept);
  feed_.set_sources(std::move(names));
}

void Daemon::Impl::wait_for_sources() {
  const auto since_start = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  const auto limit = feed_.is_restored() ? kFirstReadLimitRestored - since_start : kFirstReadLimit;
  if (limit.count() <= 0) return;
  uv_timer_t timer;
  bool over = false;
  uv_timer_init(&loop_, &timer);
  timer.data = &over;
  uv_timer_start(
      &timer, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; },
      static_cast<std::uint64_t>(limit.count()), 0);
  while (!over && !are_sources_complete()) uv_run(&loop_, UV_RUN_ONCE);
  bool closed = false;
  timer.data = &closed;
  uv_close(as_handle(&timer), [](uv_handle_t* h) { *static_cast<bool*>(h->data) = true; });
  while (!closed) uv_run(&loop_, UV_RUN_NOWAIT);
}

bool Daemon::Impl::are_sources_complete() const {
  return std::ranges::all_of(sources_,
                             [&](const RunningSource& r) { return feed_.is_complete(r.name); });
}

bool Daemon::Impl::is_synced() const {
  return std::ranges::all_of(sources_,
                             [&](const RunningSource& r) { return feed_.is_known(r.name); });
}

// A persistent allocator needs a file, of which the registry knows nothing.
void Daemon::Impl::choose_vip_allocator() {
  if (config_.mesh.auto_allocate != registry::AutoAllocate::Persistent) return;
  if (config_.state_dir.empty())
    log_.warn(
        "mesh.auto_allocate is persistent but state_dir is empty: VIPs are forgotten with a "
        "restart");
  registry::PersistentVipOptions options;
  options.v4 = config_.mesh.vip_cidr_v4;
  options.v6 = config_.mesh.vip_cidr_v6;
  if (!config_.state_dir.empty()) options.file = config_.state_dir + "/vips";
  options.quarantine = std::chrono::seconds(10 * std::max(config_.mesh.ttl.vip, 1U));
  options.clock = unix_now;
  options.report = [this](const std::string& message) { log_.error(message); };
  feed_.follow(
      registry_.set_vip_allocator(std::make_unique<registry::PersistentVips>(std::move(options))));
}

void Daemon::Impl::start_signals() {
  // A peer that is gone is an error of write(), not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  uv_timer_init(&loop_, &reload_timer_);
  reload_timer_.data = this;
  handles_.push_back(as_handle(&reload_timer_));
  // Nor is a file that may not grow any more (RLIMIT_FSIZE).
  std::signal(SIGXFSZ, SIG_IGN);
  const std::array<int, 3> numbers{SIGTERM, SIGINT, SIGHUP};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    uv_signal_init(&loop_, &signals_[i]);
    signals_[i].data = this;
    handles_.push_back(as_handle(&signals_[i]));
    uv_signal_start(
        &signals_[i],
        [](uv_signal_t* handle, int number) {
          auto* self = static_cast<Impl*>(handle->data);
          if (number == SIGHUP) return self->reload_soon();
          self->log_.info("stopping", {{"signal", number == SIGTERM ? "SIGTERM" : "SIGINT"}});
          self->stop();
        },
        numbers[i]);
  }
}

// First not ready, so that nobody sends us new clients; then no new queries, and those in flight
// are answered.  The admin endpoint tells of both.  A second wish cuts the first part short.
void Daemon::Impl::stop() {
  const bool is_first = phase_ == Phase::Serving;
  if (is_first) supervisor_.stopping();
  const auto lameduck = static_cast<std::uint64_t>(config_.server.lameduck.count());
  if (!is_first || lameduck == 0) return drain_workers();
  phase_ = Phase::Lameduck;
  uv_timer_start(
      &lameduck_, [](uv_timer_t* t) { static_cast<Impl*>(t->data)->drain_workers(); }, lameduck, 0);
}

void Daemon::Impl::drain_workers() {
  if (std::exchange(phase_, Phase::Draining) == Phase::Draining) return;
  stop_timers();
  publisher_.set_listener({});
  for (auto& unit : units_) unit->worker().drain(kDrainLimit);
  drain_waiter_ = std::thread([this] {
    for (auto& unit : units_) unit->worker().join();
    uv_async_send(&drained_);
  });
}

// Nothing is handed to workers that are about to end.
void Daemon::Impl::stop_timers() {
  for (uv_timer_t* timer : {&housekeeping_, &reload_timer_, &lameduck_}) uv_timer_stop(timer);
  for (uv_fs_poll_t& file : resolv_confs_) uv_fs_poll_stop(&file);
  uv_fs_poll_stop(&hosts_file_);
}

void Daemon::Impl::start_timers() {
  uv_timer_init(&loop_, &lameduck_);
  lameduck_.data = this;
  handles_.push_back(as_handle(&lameduck_));
  uv_async_init(&loop_, &drained_, [](uv_async_t* async) { uv_stop(async->loop); });
  handles_.push_back(as_handle(&drained_));
  uv_timer_init(&loop_, &housekeeping_);
  housekeeping_.data = this;
  handles_.push_back(as_handle(&housekeeping_));
  uv_timer_start(
      &housekeeping_, [](uv_timer_t* t) { static_cast<Impl*>(t->data)->housekeep(); },
      kHousekeepingMs, kHousekeepingMs);
  for (std::size_t i = 0; i < resolv_confs_.size(); ++i) {
    uv_fs_poll_init(&loop_, &resolv_confs_[i]);
    resolv_confs_[i].data = this;
    handles_.push_back(as_handle(&resolv_confs_[i]));
    uv_fs_poll_start(
        &resolv_confs_[i],
        [](uv_fs_poll_t* poll, int, const uv_stat_t*, const uv_stat_t*) {
          static_cast<Impl*>(poll->data)->follow_resolv_conf();
        },
        kResolvConfPaths[i], kResolvConfPollMs);
  }
  uv_fs_poll_init(&loop_, &hosts_file_);
  hosts_file_.data = this;
  handles_.push_back(as_handle(&hosts_file_));
  follow_hosts_file();
}

void Daemon::Impl::follow_hosts_file() {
  uv_fs_poll_stop(&hosts_file_);
  if (config_.hosts.file.empty()) return;
  uv_fs_poll_start(
      &hosts_file_,
      [](uv_fs_poll_t* poll, int, const uv_stat_t*, const uv_stat_t*) {
        auto* self = static_cast<Impl*>(poll->data);
        self->read_local_names();
        self->apply_query_settings();
      },
      config_.hosts.file.c_str(), kHostsFilePollMs);
}

// A hosts file that cannot be read leaves what was known of it.
void Daemon::Impl::read_hosts() {
  if (config_.hosts.file.empty()) {
    hosts_ = {};
    return;
  }
  auto hosts = read_hosts_file(config_.hosts.file);
  if (!hosts) {
    log_.warn("the hosts file cannot be read",
              {{"reason", std::string_view(hosts.error().message)}});
    return;
  }
  if (hosts->skipped > 0)
    log_.warn("lines of the hosts file are not understood",
              {{"file", std::string_view(config_.hosts.file)},
               {"lines", std::to_string(hosts->skipped)},
               {"first", std::to_string(hosts->first_skipped)}});
  hosts_ = *std::move(hosts);
}

void Daemon::Impl::read_local_names() {
  read_hosts();
  const auto names = std::make_shared<const LocalNames>(hosts_, config_.overrides);
  local_names_ = names->empty() ? nullptr : names;
}

void Daemon::Impl::read_cookie_secrets() {
  cookie_secrets_.follow(config_.server.cookies.secret_file, std::chrono::steady_clock::now());
}

QuerySettings Daemon::Impl::make_query_settings() const {
  QuerySettings settings = QuerySettings::from(config_);
  settings.local = local_names_;
  settings.cookie_secrets = cookie_secrets_.secrets();
  return settings;
}

void Daemon::Impl::apply_query_settings() {
  query_settings_ = make_query_settings();
  for (auto& unit : units_) unit->reconfigure(query_settings_);
}

void Daemon::Impl::housekeep() {
  announce_when_ready();
  publisher_.collect();
  log_.write_fold_counts();
  cache_keeper_.tick(std::chrono::steady_clock::now());
  state_keeper_.tick(std::chrono::steady_clock::now());
  if (!unbound_.empty() && std::chrono::steady_clock::now() >= bind_again_at_) bind();
  watch_workers();
  tell_of_overload();
  tell_of_limited_clients();
  tell_of_admin_clients();
  if (cookie_secrets_.tick(std::chrono::steady_clock::now())) apply_query_settings();
  keep_history();
  supervisor_.set_status(status_line());
}

// A worker that hangs leaves its share of the queries unanswered: the supervisor is to start us
// anew.
void Daemon::Impl::watch_workers() {
  std::vector<std::uint64_t> heartbeats;
  for (const auto& unit : units_) heartbeats.push_back(unit->net().heartbeat.value());
  liveness_.observe(heartbeats, std::chrono::steady_clock::now());
  avoid_those_that_stand_still();
  const std::string complaint = liveness_.complaint();
  if (complaint.empty()) return supervisor_.feed_watchdog();
  log_.write_folded(LogLevel::Error, "a worker's loop stands still", {{"workers", complaint}});
}

// What is in the socket of a worker that hangs waits for it; what comes is for the others.  Said to
// the kernel every second meanwhile: listeners may have been opened.
void Daemon::Impl::avoid_those_that_stand_still() {
  const std::vector<std::size_t> before = std::exchange(avoided_, liveness_.to_avoid());
  if (avoided_.empty() && before.empty()) return;
  std::vector<unsigned> left;
  for (unsigned i = 0; i < units_.size(); ++i)
    if (std::ranges::find(avoided_, i) == avoided_.end()) left.push_back(i);
  listeners_.deal_to(left);
  if (avoided_.size() > before.size())
    log_.write_folded(LogLevel::Warn,
                      "a worker's loop stands still: new queries are for the others",
                      {{"workers", avoided_.size()}});
}

void Daemon::Impl::tell_of_overload() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& warning : overload_.observe(degradations_of(*self_), now))
    log_.warn(warning.what, {{"count", warning.count}});
}

void Daemon::Impl::tell_of_limited_clients() {
  for (const auto& unit : units_)
    if (const auto client = unit->take_limited())
      log_.write_folded(LogLevel::Warn, "a client is over server.rate_limit",
                        {{"client", client->to_string()}});
}

void Daemon::Impl::tell_of_admin_clients() {
  const HttpCounters now = admin_.counters();
  const HttpCounters before = std::exchange(admin_counters_, now);
  if (now.accept_failures != before.accept_failures)
    log_.write_folded(LogLevel::Warn,
                      "admin.listen: no file descriptors or memory for a connection");
  if (now.overdue != before.overdue)
    log_.write_folded(LogLevel::Warn, "admin.listen: ended a connection that took too long");
}

// What the status page shows of the last minutes.
void Daemon::Impl::keep_history() {
  const auto now = std::chrono::steady_clock::now();
  LoadHistory::Totals totals;
  for (const auto& unit : units_) {
    const QueryCounters& counters = unit->query();
    for (std::size_t rcode = 0; rcode < QueryCounters::kRcodeSlots; ++rcode)
      for (const Counter& of_source : counters.responses[rcode]) {
        totals.responses += of_source.value();
        if (rcode == QueryCounters::rcode_slot(wire::Rcode::ServFail))
          totals.failures += of_source.value();
      }
    for (std::size_t i = 0; i < QueryCounters::kDurationBuckets; ++i)
      totals.duration[i] += counters.duration[i].value();
  }
  load_.observe(totals, now);
  for (const auto& running : sources_) {
    const std::uint64_t changes = running.source->status().changes;
    const auto [known, is_new] = freshness_.try_emplace(running.name, changes, now);
    if (!is_new && known->second.changes != changes) known->second = {changes, now};
  }
  if (--seconds_to_fade_ > 0) return;
  seconds_to_fade_ = kFadeSeconds;
  for (const auto& unit : units_) unit->failing_names().fade();
}

// What `systemctl status` shows.
std::string Daemon::Impl::status_line() const {
  const auto& snapshot = *registry_.current();
  const Readiness state = readiness();
  std::string line = state.ready ? "answering for " : "not ready; knows ";
  line += std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) + " hosts of " +
          std::to_string(sources_.size()) + (sources_.size() == 1 ? " source" : " sources");
  if (!state.reasons.empty()) line += "; " + printable(state.reasons.front());
  return line;
}

void Daemon::Impl::follow_resolv_conf() {
  if (!config_.upstream.servers.empty()) return;
  apply_upstream();
}

Readiness Daemon::Impl::readiness() const {
  Readiness readiness;
  readiness.ready = phase_ == Phase::Serving;
  if (!readiness.ready) readiness.reasons.emplace_back("stopping");
  for (const auto& running : sources_) {
    const registry::SourceStatus status = running.source->status();
    if (feed_.is_complete(running.name)) {
      if (!status.last_error.empty())
        readiness.reasons.push_back(running.name + ": " + status.last_error);
      continue;
    }
    if (!feed_.is_known(running.name)) readiness.ready = false;
    readiness.reasons.push_back(running.name + ": not read yet" +
                                (status.last_error.empty() ? "" : ": " + status.last_error));
  }
  if (registry_.current()->from_state_dir)
    readiness.reasons.emplace_back("snapshot: serving the state of state_dir");
  for (const auto& failure : unbound_) readiness.reasons.push_back("not bound: " + failure);
  if (!reloads_.ok)
    readiness.reasons.emplace_back("config: the last reload failed, the one before it is in force");
  return readiness;
}

void Daemon::Impl::update_state() {
  const bool was_restored = registry_.current()->from_state_dir;
  registry_.set_state(is_authority(config_), is_synced(), feed_.is_restored());
  registry_.set_endpoints_unknown(feed_.lacks_endpoints());
  if (was_restored && !feed_.is_restored())
    log_.info("all sources have been read; what only the last run knew is gone");
  announce_when_ready();
}

// Once, when there is something to answer from and somebody to answer.
void Daemon::Impl::announce_when_ready() {
  if (announced_ || units_.empty()) return;
  if (!is_synced() && std::chrono::steady_clock::now() - started_ < kReadyAnyway) return;
  announced_ = true;
  const auto& snapshot = *registry_.current();
  log_.announce("ready: listen=" + joined(listeners_.addresses()) +
                " workers=" + std::to_string(units_.size()) +
                " resources=" + std::to_string(snapshot.resources.size()) +
                " hosts=" + std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) +
                " admin=" + admin_.address());
  supervisor_.ready(status_line());
}

// Signals that come together are one reload, and a file that is being written is waited for.
void Daemon::Impl::reload_soon() {
  if (uv_is_active(as_handle(&reload_timer_)) != 0) return;
  reload_tries_ = 0;
  config_text_ = read_text_file(config_path_).value_or("");
  wait_for_steady_config();
}

void Daemon::Impl::wait_for_steady_config() {
  uv_timer_start(
      &reload_timer_,
      [](uv_timer_t* timer) {
        auto* self = static_cast<Impl*>(timer->data);
        auto text = read_text_file(self->config_path_).value_or("");
        const bool is_steady = text == self->config_text_;
        self->config_text_ = std::move(text);
        if (!is_steady && ++self->reload_tries_ < kSteadyTries)
          return self->wait_for_steady_config();
        self->config_text_.clear();
        self->reload();
      },
      kSteadyMs, 0);
}

void Daemon::Impl::reload() {
  if (phase_ == Phase::Draining) return;
  log_.info("reloading", {{"config", std::string_view(config_path_)}});
  supervisor_.reloading();
  if (!config_path_.empty()) {
    ++reloads_.reloads;
    auto loaded = reload_config(config_path_);
    if (!loaded) {
      log_.error(loaded.error().message);
    } else {
      for (const auto& finding : loaded->findings)
        log_.write(finding.severity == registry::Severity::Error ? LogLevel::Error : LogLevel::Warn,
                   finding.to_string());
    }
    reloads_.ok = loaded && loaded->valid();
    if (reloads_.ok) {
      reloads_.last_success_unix = std::time(nullptr);
      apply_config(std::move(loaded->config));
    } else {
      ++reloads_.failures;
      log_.error("the configuration was not taken over; the one before it stays in force",
                 {{"config", std::string_view(config_path_)}});
    }
  }
  for (const auto& running : sources_) running.source->rescan();
  supervisor_.reloaded();
}

void Daemon::Impl::size_cache(Config& config) const {
  config.cache = sized_cache(config.cache, memory_limit_);
}

void Daemon::Impl::tell_of_memory() const {
  const std::string size = format_size(config_.cache.size_bytes);
  const std::string limit = memory_limit_ ? format_size(*memory_limit_) : "none";
  log_.info("memory", {{"cache.size", std::string_view(size)},
                       {"auto", config_.cache.has_default_size},
                       {"cgroup_limit", std::string_view(limit)}});
}

void Daemon::Impl::apply_config(Config next) {
  size_cache(next);
  const Config before = std::exchange(config_, std::move(next));
  if (config_.cache.size_bytes != before.cache.size_bytes) tell_of_memory();
  log_.set_level(config_.log.level);
  log_.set_format(config_.log.format);
  if (config_.server.workers != before.server.workers)
    log_.warn("server.workers takes effect with the next start");
  if (config_.server.tcp != before.server.tcp) budget_->set_limits(tcp_limits(config_.server));
  unbound_.clear();
  bind();
  if (config_.log != before.log) apply_query_log();
  read_local_names();
  read_cookie_secrets();
  follow_hosts_file();
  apply_query_settings();
  if (config_.mesh != before.mesh) {
    feed_.follow(registry_.set_settings(config_.mesh));
    choose_vip_allocator();
  }
  if (config_.client != before.client) registry_.set_clients(client_settings(config_.client));
  forwarding_->cache.reconfigure(config_.cache);
  cache_keeper_.move_to(config_.state_dir);
  state_keeper_.reconfigure(config_.state_dir, saved_sources(config_));
  apply_upstream();
  start_sources();
  update_state();
  for (const auto& section : changed_sections(before, config_))
    log_.info("configuration changed", {{"section", section}});
}

// Those of the configuration; what cannot be bound is said once, and tried again.
void Daemon::Impl::bind() {
  const std::vector<std::string> said = std::exchange(unbound_, {});
  apply_listeners();
  if (auto opened = admin_.serve_at(config_.admin.listen); !opened)
    unbound_.push_back(opened.error().message);
  for (const auto& failure : unbound_)
    if (std::ranges::find(said, failure) == said.end()) log_.error(failure);
  bind_again_at_ = std::chrono::steady_clock::now() + kBindAgain;
}

void Daemon::Impl::apply_listeners() {
  auto change = listeners_.change_to(config_.server.listen);
  for (const auto& failure : change.failures) unbound_.push_back(failure.message);
  if (change.opened.empty() && change.closed.empty()) return;
  if (!change.opened.empty()) log_.info("listening", {{"address", joined(change.opened)}});
  if (!change.closed.empty())
    log_.info("no longer listening", {{"address", joined(change.closed)}});
  listeners_ = change.set;
  for (auto& unit : units_) unit->worker().change_listeners(listeners_);
}

// The query log has a queue of its own, so that no flood of queries pushes out what matters.
void Daemon::Impl::apply_query_log() {
  const QueryLogConfig& wanted = config_.log.queries;
  const bool is_on = wanted.query_class != QueryLogClass::Off && wanted.sample > 0;
  if (is_on && !query_log_)
    query_log_ = std::make_unique<Log>(LogOptions{LogLevel::Info, config_.log.format});
  if (query_log_) query_log_->set_format(config_.log.format);
  apply_dnstap();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    auto logs = std::make_shared<QueryLogs>();
    if (is_on) logs->add(std::make_unique<QueryLogWriter>(*query_log_, wanted, i));
    if (config_.log.dnstap)
      logs->add(std::make_unique<DnstapLog>(dnstap_, query_settings_.server_identity,
                                            query_settings_.server_version));
    units_[i]->log_queries(logs->empty() ? nullptr : std::move(logs));
  }
}

// A stream that is not wanted any more is closed here; workers that still hold it push into
// nothing.
void Daemon::Impl::apply_dnstap() {
  if (dnstap_ && (!config_.log.dnstap || *config_.log.dnstap != dnstap_->target())) {
    dnstap_->close();
    dnstap_before_.written += dnstap_->written();
    dnstap_before_.dropped += dnstap_->dropped();
    dnstap_.reset();
  }
  if (config_.log.dnstap && !dnstap_)
    dnstap_ = std::make_shared<FrameStream>(*config_.log.dnstap, log_);
}

DnstapCounts Daemon::Impl::dnstap_counts() const {
  DnstapCounts counts = dnstap_before_;
  if (dnstap_) {
    counts.written += dnstap_->written();
    counts.dropped += dnstap_->dropped();
  }
  return counts;
}

void Daemon::Impl::apply_upstream() {
  std::string warning;
  UpstreamConfig next = effective_upstream(config_, listeners_.addresses(), &warning);
  if (!warning.empty()) log_.write_folded(LogLevel::Warn, warning);
  // A resolv.conf that is being rewritten may name nobody for a moment: keep whom we know.
  if (next.servers.empty() && !upstream_.servers.empty() && config_.upstream.servers.empty())
    next.servers = upstream_.servers;
  upstream_ = std::move(next);
  for (auto& unit : units_) unit->reconfigure(upstream_, config_.cache);
  lookups_->reconfigure(
      {[this](std::string_view host) { return plain_servers_for(upstream_, host); },
       upstream_.timeout});
  resolver_->retry_failed();
}

std::vector<registry::SourceStatus> Daemon::Impl::sources() const {
  std::vector<registry::SourceStatus> list;
  for (const auto& running : sources_) list.push_back(running.source->status());
  return list;
}

std::vector<WorkerStatus> Daemon::Impl::workers() const {
  std::vector<WorkerStatus> list;
  for (const auto& unit : units_) list.push_back({unit->net(), unit->query(), unit->forward()});
  return list;
}

int Daemon::Impl::run() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  shut_down();
  return 0;
}

void Daemon::Impl::shut_down() {
  if (!loop_open_) return;
  loop_open_ = false;
  if (drain_waiter_.joinable()) {
    drain_waiter_.join();
  } else {  // a start that has failed
    publisher_.set_listener({});
    for (auto& unit : units_) unit->worker().drain(kDrainLimit);
    for (auto& unit : units_) unit->worker().join();
  }
  admin_.close();
  units_.clear();
  if (dnstap_) dnstap_->close();
  cache_keeper_.close();
  state_keeper_.close();
  sources_.clear();
  feed_.set_resolver(nullptr);
  resolver_.reset();
  lookups_.reset();
  for (uv_handle_t* handle : handles_) uv_close(handle, nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
}

Result<std::unique_ptr<Daemon>> Daemon::start(std::string config_path, Config config, Log& log) {
  std::unique_ptr<Daemon> daemon(
      new Daemon(std::make_unique<Impl>(std::move(config_path), std::move(config), log)));
  if (auto started = daemon->impl_->start(*daemon); !started)
    return std::unexpected(started.error());
  return daemon;
}

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;
int Daemon::run() { return impl_->run(); }
void Daemon::stop() { impl_->stop(); }
void Daemon::reload() { impl_->reload(); }
uv_loop_t* Daemon::loop() { return &impl_->loop_; }
const Config& Daemon::config() const { return impl_->config_; }
const registry::Registry& Daemon::registry() const { return impl_->registry_; }
registry::Registry& Daemon::registry() { return impl_->registry_; }
const QuerySettings& Daemon::query_settings() const { return impl_->query_settings_; }
Log& Daemon::log() { return impl_->log_; }
Readiness Daemon::readiness() const { return impl_->readiness(); }
std::vector<registry::SourceStatus> Daemon::sources() const { return impl_->sources(); }
const RegistryFeed& Daemon::feed() const { return impl_->feed_; }
const resolver::NameResolver& Daemon::resolver() const { return *impl_->resolver_; }
Cache& Daemon::cache() { return impl_->forwarding_->cache; }
ForwardShared& Daemon::forwarding() { return *impl_->forwarding_; }
std::vector<WorkerStatus> Daemon::workers() const { return impl_->workers(); }
StateStatus Daemon::state() const { return impl_->state_keeper_.status(); }
const ReloadStatus& Daemon::reloads() const { return impl_->reloads_; }
std::vector<SocketAddress> Daemon::listening() const { return impl_->listeners_.addresses(); }
ForwardingFacts Daemon::describe_forwarding(std::string_view wire_name, wire::Type type) const {
  return impl_->describe_forwarding(wire_name, type);
}
double Daemon::started_unix() const {
  const auto up = std::chrono::steady_clock::now() - impl_->started_;
  const auto began = std::chrono::system_clock::now() - up;
  return std::chrono::duration<double>(began.time_since_epoch()).count();
}
const LoadHistory& Daemon::load() const { return impl_->load_; }
std::vector<FailingNames::Entry> Daemon::failing_names(std::size_t limit) const {
  std::map<std::pair<std::string, wire::Rcode>, std::uint64_t> sums;
  for (const auto& unit : impl_->units_)
    for (auto& entry : unit->failing_names().list())
      sums[{std::move(entry.name), entry.rcode}] += entry.count;
  std::vector<FailingNames::Entry> list;
  for (const auto& [key, count] : sums) list.push_back({key.first, key.second, count});
  std::ranges::stable_sort(list, std::ranges::greater{}, &FailingNames::Entry::count);
  if (list.size() > limit) list.resize(limit);
  return list;
}
std::chrono::steady_clock::time_point Daemon::last_change(const std::string& source) const {
  const auto known = impl_->freshness_.find(source);
  return known == impl_->freshness_.end() ? impl_->started_ : known->second.at;
}
std::size_t Daemon::avoided() const { return impl_->avoided_.size(); }
std::size_t Daemon::stuck() const { return impl_->liveness_.stuck().size(); }
std::string Daemon::complaint() const { return impl_->liveness_.complaint(); }
DnstapCounts Daemon::dnstap_counts() const { return impl_->dnstap_counts(); }
const HttpCounters& Daemon::admin_counters() const { return impl_->admin_.counters(); }
std::uint64_t Daemon::query_log_dropped() const {
  return impl_->query_log_ ? impl_->query_log_->dropped() : 0;
}
std::chrono::steady_clock::time_point Daemon::started() const { return impl_->started_; }

}  // namespace meshdns::dnsd
