// SPDX-License-Identifier: Apache-2.0
// A thread that answers queries: one event loop with sockets, connections and counters of its own.
//
//     Worker::create -> build the sink on worker.loop() -> start -> ... -> drain -> join
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "dnsd/net/counters.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/reach_probes.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/mailbox.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

class TcpServer;
class UdpServer;

struct WorkerOptions {
  unsigned index = 0;                         // which of a listener's sockets are this worker's
  int cpu = -1;                               // the core to stay on; -1 = any
  std::shared_ptr<ReachProbes> reach_probes;  // shared by all workers; null = none
};

class Worker final : private ReplySender {
 public:
  // `budget` is shared by all workers: what TCP connections there may be.
  static Result<std::unique_ptr<Worker>> create(const WorkerOptions& options,
                                                std::shared_ptr<TcpBudget> budget);
  // REQUIRES: never started, or joined.
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The worker's loop: for handles of the sink.  The control thread before start(), then this
  // worker's thread only.
  uv_loop_t* loop() { return &loop_; }
  // As loop().
  ReplySender& replies() { return *this; }
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
  // Leaves new queries and connections to another process that has the same sockets, until it is
  // told to read again.  Established TCP connections are served on.
  void stop_reading();
  void read_again();
  // Stops accepting, answers what is in flight for at most `limit`, then ends the thread.
  void drain(std::chrono::milliseconds limit, Waiting waiting = Waiting::Answered);
  // Waits for the thread's end.  REQUIRES: drain() was called.
  void join();

  const WorkerCounters& counters() const { return counters_; }

 private:
  Worker(const WorkerOptions& options, std::shared_ptr<TcpBudget> budget);
  int init_loop();

  void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) override;
  void drop(const ReplyTo& reply_to) override;

  void run();
  void flush();
  void tick();
  int serve(const ListenerSet& listeners, Waiting waiting = Waiting::Answered);
  void drain_tick();
  void finish();
  void close_own_handles();

  const WorkerOptions options_;
  std::shared_ptr<TcpBudget> budget_;
  WorkerCounters counters_;

  // The worker's thread; the control thread before start().
  uv_loop_t loop_;
  bool loop_ready_ = false;
  loop::Mailbox mailbox_;  // post() from any thread
  uv_check_t after_poll_;
  uv_prepare_t before_poll_;
  loop::Timer timer_;
  loop::Timer drain_timer_;
  std::unique_ptr<UdpServer> udp_;
  std::unique_ptr<TcpServer> tcp_;
  QuerySink* sink_ = nullptr;
  unsigned ticks_ = 0;
  std::uint64_t retired_at_ = 0;  // loop time; 0 = no listener waits to be closed
  bool draining_ = false;
  std::uint64_t drain_until_ = 0;

  std::thread thread_;  // control thread
};

}  // namespace meshdns::dnsd
