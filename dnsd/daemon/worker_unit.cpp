// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/worker_unit.hpp"

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

}  // namespace meshdns::dnsd
