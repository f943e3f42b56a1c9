// SPDX-License-Identifier: Apache-2.0
// One worker with all that answers on it, built and torn down in the one order that works.
#pragma once

#include <memory>

#include "dnsd/config/config.hpp"
#include "dnsd/net/worker.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_handler.hpp"
#include "dnsd/query/upstreams.hpp"
#include "registry/snapshot/publisher.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// Control thread.
class WorkerUnit {
 public:
  // REQUIRES: `publisher` outlives it.
  static Result<std::unique_ptr<WorkerUnit>> create(
      const WorkerOptions& options, std::shared_ptr<TcpBudget> budget,
      std::shared_ptr<ForwardShared> forwarding, registry::Publisher& publisher,
      const UpstreamConfig& upstream, const CacheConfig& cache, const QuerySettings& settings);

  Result<void> start(const ListenerSet& listeners) { return worker_->start(listeners, *handler_); }
  Worker& worker() { return *worker_; }
  // Each takes effect on the worker's thread, soon.
  void on_snapshot();
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  void reconfigure(const QuerySettings& settings);
  void log_queries(std::shared_ptr<QueryLog> log);           // null = none
  void feed_kernel(std::shared_ptr<const KernelFeed> feed);  // null = none

  const WorkerCounters& net() const { return worker_->counters(); }
  const QueryCounters& query() const { return handler_->counters(); }
  FailingNames& failing_names() { return handler_->failing_names(); }
  TopQueries& top() { return handler_->top(); }
  std::optional<IpAddress> take_limited() { return handler_->take_limited(); }
  const ForwardCounters& forward() const { return forwarder_->counters(); }
  const Forwarder& forwarder() const { return *forwarder_; }

 private:
  WorkerUnit() = default;

  // In the order of construction; destroyed the other way round, after the worker has been joined.
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<LoopClock> clock_;
  std::unique_ptr<Forwarder> forwarder_;
  std::unique_ptr<ForwarderUpstreams> upstream_;
  std::shared_ptr<QueryLog> log_;  // the worker's thread
  std::unique_ptr<QueryHandler> handler_;
};

}  // namespace meshdns::dnsd
