// SPDX-License-Identifier: Apache-2.0
// A thread that answers queries: one event loop with sockets, connections and counters of its own.
//
//     Worker::create -> build the sink on worker.loop() -> start -> ... -> drain -> join
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>

#include "dnsd/net/counters.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct WorkerOptions {
  unsigned index = 0;  // which of a listener's sockets are this worker's
  int cpu = -1;        // the core to stay on; -1 = any
};

class Worker {
 public:
  // `budget` is shared by all workers: what TCP connections there may be.
  static Result<std::unique_ptr<Worker>> create(const WorkerOptions& options,
                                                std::shared_ptr<TcpBudget> budget);
  // REQUIRES: never started, or joined.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The worker's loop: for handles of the sink.  The control thread before start(), then this
  // worker's thread only.
  uv_loop_t* loop();
  // As loop().
  ReplySender& replies();
  // The idle timeout that a TCP client is held to now (RFC 7828).  This worker's thread.
  std::chrono::milliseconds tcp_idle_timeout() const;

  // Begins to answer on this worker's sockets of `listeners`.  REQUIRES: `sink` outlives join().
  Result<void> start(const ListenerSet& listeners, QuerySink& sink);

  // Any thread from here on.

  // Runs `task` on the worker's thread, in the order posted.  After the end of the loop tasks are
  // destroyed without having run.
  void post(std::move_only_function<void()> task);
  // Moves to another set of listeners: new sockets are served first, then the old ones are emptied
  // and closed.  Established TCP connections stay.  The returned flag of completion is not needed:
  // the sockets themselves were opened by the set.
  void change_listeners(ListenerSet listeners);
  // Stops accepting, answers what is in flight for at most `limit`, then ends the thread.
  void drain(std::chrono::milliseconds limit);
  // Waits for the thread's end.  REQUIRES: drain() was called.
  void join();

  const WorkerCounters& counters() const;

 private:
  class Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
