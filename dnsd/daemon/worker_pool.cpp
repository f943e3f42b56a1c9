// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/worker_pool.hpp"

#include <uv.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_handler.hpp"
#include "dnsd/query/upstreams.hpp"

namespace meshdns::dnsd {

// One worker with all that answers on it.  In the order of construction; destroyed the other way
// round, after the worker has been joined.
struct WorkerPool::Unit {
  Unit(std::unique_ptr<Worker> made, const Shared& shared, const UpstreamConfig& upstream,
       const CacheConfig& cache, const QuerySettings& settings)
      : worker(std::move(made)),
        clock(worker->loop()),
        forwarder(worker->loop(), shared.forwarding, upstream, cache),
        upstreams(forwarder, shared.forwarding),
        handler({shared.publisher, upstreams, worker->replies(), clock, nullptr,
                 [this] { return worker->tcp_idle_timeout(); }},
                settings) {}

  const std::unique_ptr<Worker> worker;
  LoopClock clock;
  Forwarder forwarder;
  ForwarderUpstreams upstreams;
  std::shared_ptr<QueryLog> log;  // the worker's thread
  QueryHandler handler;
};

WorkerPool::WorkerPool(Log& log) : log_(log) {}
WorkerPool::~WorkerPool() { end(); }

void Liveness::observe(std::span<const std::uint64_t> heartbeats, Time now) {
  // The observer itself may have been held up, the whole machine asleep: then nobody is to blame
  // before the workers had their time again.
  const bool late = now - observed_ > kStuckAfter;
  observed_ = now;
  workers_.resize(heartbeats.size(), Worker{~std::uint64_t{0}, now});
  for (std::size_t i = 0; i < heartbeats.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.heartbeat != heartbeats[i] || late) worker = {heartbeats[i], now};
  }
}

std::vector<std::size_t> Liveness::still_for(std::chrono::seconds time) const {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (observed_ - workers_[i].moved >= time) list.push_back(i);
  return list;
}

std::string Liveness::complaint() const {
  std::string text;
  for (const std::size_t index : stuck())
    text += (text.empty() ? "" : ", ") + ("worker " + std::to_string(index) + " hangs");
  return text;
}

namespace {

constexpr std::chrono::milliseconds kDrainLimit{2'000};

}  // namespace

unsigned worker_count(const ServerConfig& server) {
  return server.workers != 0 ? server.workers : std::max(1U, std::thread::hardware_concurrency());
}

Result<void> WorkerPool::start(const Config& config, const UpstreamConfig& upstream,
                               const QuerySettings& settings, const ListenerSet& listeners,
                               const Shared& shared) {
  for (unsigned i = 0; i < listeners.workers(); ++i) {
    WorkerOptions options;
    options.index = i;
    options.reach_probes = shared.reach_probes;
    options.cpu = config.server.cpu_affinity ? static_cast<int>(i) : -1;
    auto worker = Worker::create(options, shared.budget);
    if (!worker) return std::unexpected(worker.error());
    units_.push_back(
        std::make_unique<Unit>(*std::move(worker), shared, upstream, config.cache, settings));
  }
  asked_ = std::make_shared<AskedInbox>(units_.size());
  for (auto& unit : units_)
    if (auto started = unit->worker->start(listeners, unit->handler); !started) return started;
  return {};
}

template <typename Change>
void WorkerPool::post(const Change& change) {
  for (auto& unit : units_) unit->worker->post([&each = *unit, change] { change(each); });
}

void WorkerPool::on_snapshot() {
  post([](Unit& unit) { unit.handler.on_snapshot(); });
}

void WorkerPool::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  post([upstream, cache](Unit& unit) { unit.forwarder.reconfigure(upstream, cache); });
}

void WorkerPool::reconfigure(const QuerySettings& settings) {
  post([settings](Unit& unit) { unit.handler.reconfigure(settings); });
}

void WorkerPool::change_listeners(const ListenerSet& listeners) {
  for (auto& unit : units_) unit->worker->change_listeners(listeners);
}

void WorkerPool::stop_reading() {
  for (auto& unit : units_) unit->worker->stop_reading();
}

void WorkerPool::read_again() {
  for (auto& unit : units_) unit->worker->read_again();
}

void WorkerPool::log_queries(
    const std::function<std::shared_ptr<QueryLog>(std::size_t)>& make_log) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    units_[i]->worker->post([&unit = *units_[i], log = make_log(i)] {
      unit.handler.set_log(log.get());
      unit.log = log;
    });
}

void WorkerPool::feed_kernel(const std::shared_ptr<const KernelFeed>& feed) {
  post([feed](Unit& unit) { unit.handler.feed_kernel(feed); });
}

void WorkerPool::count_asked(DependencyRecord record) {
  const auto inbox = record == DependencyRecord::Off ? nullptr : asked_;
  post([inbox, has_names = record == DependencyRecord::All](Unit& unit) {
    unit.handler.count_asked(inbox, has_names);
  });
}

std::vector<std::unique_ptr<AskedHosts>> WorkerPool::take_asked() {
  if (--seconds_to_asked_ == 0) {
    seconds_to_asked_ = kAskedSeconds;
    post([](Unit& unit) { unit.handler.hand_over_asked(); });
  }
  return asked_->take();
}

void WorkerPool::watch(ListenerSet& listeners, std::chrono::steady_clock::time_point now) {
  std::vector<std::uint64_t> heartbeats;
  for (const auto& unit : units_) heartbeats.push_back(unit->worker->counters().heartbeat.value());
  liveness_.observe(heartbeats, now);
  avoid_those_that_stand_still(listeners);
  const std::string complaint = liveness_.complaint();
  if (!complaint.empty())
    log_.write_folded(LogLevel::Error, "workers do not respond", {{"workers", complaint}});
}

// Queries that are already in the socket of such a worker stay there.
void WorkerPool::avoid_those_that_stand_still(ListenerSet& listeners) {
  const std::vector<std::size_t> before = std::exchange(avoided_, liveness_.to_avoid());
  if (avoided_.empty() && before.empty()) return;
  std::vector<unsigned> left;
  for (unsigned i = 0; i < units_.size(); ++i)
    if (std::ranges::find(avoided_, i) == avoided_.end()) left.push_back(i);
  listeners.deal_to(left);
  if (avoided_.size() > before.size())
    log_.write_folded(LogLevel::Warn,
                      "workers have not responded for 2 s; new queries go to the other workers",
                      {{"workers", avoided_.size()}});
}

void WorkerPool::tell_of_limited_clients() {
  for (const auto& unit : units_)
    if (const auto client = unit->handler.take_limited())
      log_.write_folded(LogLevel::Warn, "a client is over server.rate_limit",
                        {{"client", client->to_string()}});
}

std::vector<WorkerStatus> WorkerPool::statuses() const {
  std::vector<WorkerStatus> list;
  for (const auto& unit : units_)
    list.push_back(
        {unit->worker->counters(), unit->handler.counters(), unit->forwarder.counters()});
  if (others_ != nullptr) list.push_back(*others_);
  return list;
}

WorkersStatus WorkerPool::status() const {
  return {units_.size(), statuses(), liveness_.stuck().size(), avoided_.size()};
}

std::uint64_t WorkerPool::dropped_queries() const {
  std::uint64_t dropped = 0;
  for (const auto& unit : units_) dropped += unit->worker->counters().udp_socket_overflow.value();
  return dropped;
}

LoadHistory::Totals WorkerPool::totals() const {
  LoadHistory::Totals totals;
  for (const WorkerStatus& status : statuses()) {
    const QueryCounters& counters = status.query;
    for (std::size_t rcode = 0; rcode < QueryCounters::kRcodeSlots; ++rcode)
      for (const Counter& of_source : counters.responses[rcode]) {
        totals.responses += of_source.value();
        if (rcode == QueryCounters::rcode_slot(wire::Rcode::ServFail))
          totals.failures += of_source.value();
      }
    for (std::size_t i = 0; i < QueryCounters::kDurationBuckets; ++i)
      totals.duration[i] += counters.duration[i].value();
  }
  return totals;
}

std::vector<FailingNames::Entry> WorkerPool::failing_names(std::size_t limit) const {
  return united(limit, [](QueryHandler& handler) { return handler.failing_names().list(); });
}

template <typename NamesOf>
std::vector<FailingNames::Entry> WorkerPool::united(std::size_t limit,
                                                    const NamesOf& names_of) const {
  std::map<std::pair<std::string, wire::Rcode>, std::uint64_t> sums;
  for (const auto& unit : units_)
    for (auto& entry : names_of(unit->handler))
      sums[{std::move(entry.name), entry.rcode}] += entry.count;
  std::vector<FailingNames::Entry> list;
  for (const auto& [key, count] : sums) list.push_back({key.first, key.second, count});
  std::ranges::stable_sort(list, std::ranges::greater{}, &FailingNames::Entry::count);
  if (list.size() > limit) list.resize(limit);
  return list;
}

std::vector<std::string> WorkerPool::often_denied() const {
  std::vector<std::string> names;
  for (auto& entry : failing_names(kMaxOftenDenied))
    if (entry.rcode == wire::Rcode::NxDomain && entry.count >= kOftenDenied)
      names.push_back(std::move(entry.name));
  std::ranges::sort(names);
  return names;
}

FrequentQueries WorkerPool::frequent(std::size_t limit) const {
  std::vector<TopQueries*> workers;
  for (const auto& unit : units_) workers.push_back(&unit->handler.top());
  if (others_top_ != nullptr) workers.push_back(others_top_);
  return {TopQueries::report(workers, limit, uv_hrtime()), failing_names(limit),
          united(limit, [](QueryHandler& handler) { return handler.outside_names().list(); })};
}

void WorkerPool::fade_failing_names() {
  if (--seconds_to_fade_ > 0) return;
  seconds_to_fade_ = kFadeSeconds;
  for (const auto& unit : units_) unit->handler.failing_names().fade();
}

void WorkerPool::drain(Waiting waiting, std::function<void()> on_drained) {
  for (auto& unit : units_) unit->worker->drain(kDrainLimit, waiting);
  drain_waiter_ = std::thread([this, on_drained = std::move(on_drained)] {
    for (auto& unit : units_) unit->worker->join();
    on_drained();
  });
}

void WorkerPool::end() {
  if (drain_waiter_.joinable()) {
    drain_waiter_.join();
  } else {
    for (auto& unit : units_) unit->worker->drain(kDrainLimit);
    for (auto& unit : units_) unit->worker->join();
  }
  for (auto& unit : units_) unit->handler.hand_over_asked();
  units_.clear();
}

}  // namespace meshdns::dnsd
