// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/worker_pool.hpp"

#include <uv.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace meshdns::dnsd {

Result<std::unique_ptr<WorkerUnit>> WorkerUnit::create(
    const WorkerOptions& options, std::shared_ptr<TcpBudget> budget,
    std::shared_ptr<ForwardShared> forwarding, registry::Publisher& publisher,
    const UpstreamConfig& upstream, const CacheConfig& cache, const QuerySettings& settings) {
  auto worker = Worker::create(options, std::move(budget));
  if (!worker) return std::unexpected(worker.error());
  std::unique_ptr<WorkerUnit> unit(new WorkerUnit);
  unit->worker_ = std::move(*worker);
  uv_loop_t* loop = unit->worker_->loop();
  unit->clock_ = std::make_unique<LoopClock>(loop);
  unit->forwarder_ = std::make_unique<Forwarder>(loop, forwarding, upstream, cache);
  unit->upstream_ = std::make_unique<ForwarderUpstreams>(*unit->forwarder_, std::move(forwarding));
  Worker* raw = unit->worker_.get();
  QueryHandlerParts parts{
      publisher,     *unit->upstream_, unit->worker_->replies(),
      *unit->clock_, nullptr,          [raw] { return raw->tcp_idle_timeout(); }};
  unit->handler_ = std::make_unique<QueryHandler>(std::move(parts), settings);
  return unit;
}

void WorkerUnit::on_snapshot() {
  worker_->post([this] { handler_->on_snapshot(); });
}

void WorkerUnit::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  worker_->post([this, upstream, cache] { forwarder_->reconfigure(upstream, cache); });
}

void WorkerUnit::reconfigure(const QuerySettings& settings) {
  worker_->post([this, settings] { handler_->reconfigure(settings); });
}

void WorkerUnit::feed_kernel(std::shared_ptr<const KernelFeed> feed) {
  worker_->post([this, feed = std::move(feed)] { handler_->feed_kernel(feed); });
}

void WorkerUnit::log_queries(std::shared_ptr<QueryLog> log) {
  worker_->post([this, log = std::move(log)] {
    handler_->set_log(log.get());
    log_ = log;
  });
}

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
    auto unit = WorkerUnit::create(options, shared.budget, shared.forwarding, shared.publisher,
                                   upstream, config.cache, settings);
    if (!unit) return std::unexpected(unit.error());
    units_.push_back(std::move(*unit));
  }
  for (auto& unit : units_)
    if (auto started = unit->start(listeners); !started) return started;
  return {};
}

void WorkerPool::on_snapshot() {
  for (auto& unit : units_) unit->on_snapshot();
}

void WorkerPool::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  for (auto& unit : units_) unit->reconfigure(upstream, cache);
}

void WorkerPool::reconfigure(const QuerySettings& settings) {
  for (auto& unit : units_) unit->reconfigure(settings);
}

void WorkerPool::change_listeners(const ListenerSet& listeners) {
  for (auto& unit : units_) unit->worker().change_listeners(listeners);
}

void WorkerPool::stop_reading() {
  for (auto& unit : units_) unit->worker().stop_reading();
}

void WorkerPool::read_again() {
  for (auto& unit : units_) unit->worker().read_again();
}

void WorkerPool::log_queries(
    const std::function<std::shared_ptr<QueryLog>(std::size_t)>& make_log) {
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i]->log_queries(make_log(i));
}

void WorkerPool::feed_kernel(const std::shared_ptr<const KernelFeed>& feed) {
  for (auto& unit : units_) unit->feed_kernel(feed);
}

void WorkerPool::watch(ListenerSet& listeners, std::chrono::steady_clock::time_point now) {
  std::vector<std::uint64_t> heartbeats;
  for (const auto& unit : units_) heartbeats.push_back(unit->net().heartbeat.value());
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
    if (const auto client = unit->take_limited())
      log_.write_folded(LogLevel::Warn, "a client is over server.rate_limit",
                        {{"client", client->to_string()}});
}

std::vector<WorkerStatus> WorkerPool::statuses() const {
  std::vector<WorkerStatus> list;
  for (const auto& unit : units_) list.push_back({unit->net(), unit->query(), unit->forward()});
  if (others_ != nullptr) list.push_back(*others_);
  return list;
}

WorkersStatus WorkerPool::status() const {
  return {units_.size(), statuses(), liveness_.stuck().size(), avoided_.size()};
}

std::uint64_t WorkerPool::dropped_queries() const {
  std::uint64_t dropped = 0;
  for (const auto& unit : units_) dropped += unit->net().udp_socket_overflow.value();
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
  std::map<std::pair<std::string, wire::Rcode>, std::uint64_t> sums;
  for (const auto& unit : units_)
    for (auto& entry : unit->failing_names().list())
      sums[{std::move(entry.name), entry.rcode}] += entry.count;
  std::vector<FailingNames::Entry> list;
  for (const auto& [key, count] : sums) list.push_back({key.first, key.second, count});
  std::ranges::stable_sort(list, std::ranges::greater{}, &FailingNames::Entry::count);
  if (list.size() > limit) list.resize(limit);
  return list;
}

TopReport WorkerPool::top(std::size_t limit) const {
  std::vector<TopQueries*> workers;
  for (const auto& unit : units_) workers.push_back(&unit->top());
  if (others_top_ != nullptr) workers.push_back(others_top_);
  return TopQueries::report(workers, limit, uv_hrtime());
}

void WorkerPool::fade_failing_names() {
  for (const auto& unit : units_) unit->failing_names().fade();
}

void WorkerPool::drain(Waiting waiting, std::function<void()> on_drained) {
  for (auto& unit : units_) unit->worker().drain(kDrainLimit, waiting);
  drain_waiter_ = std::thread([this, on_drained = std::move(on_drained)] {
    for (auto& unit : units_) unit->worker().join();
    on_drained();
  });
}

void WorkerPool::end() {
  if (drain_waiter_.joinable()) {
    drain_waiter_.join();
  } else {
    for (auto& unit : units_) unit->worker().drain(kDrainLimit);
    for (auto& unit : units_) unit->worker().join();
  }
  units_.clear();
}

}  // namespace meshdns::dnsd
