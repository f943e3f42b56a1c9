// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/worker.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/net/tcp_server.hpp"
#include "dnsd/net/udp_server.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr unsigned kTicksPerSecond = 4;
constexpr std::chrono::milliseconds kDrainTick{5};
// The time that a listener that was taken away still sends late replies.
constexpr std::uint64_t kRetiredMs = 5000;

}  // namespace

Result<std::unique_ptr<Worker>> Worker::create(const WorkerOptions& options,
                                               std::shared_ptr<TcpBudget> budget) {
  std::unique_ptr<Worker> worker(new Worker(options, std::move(budget)));
  if (const int error = worker->init_loop(); error != 0)
    return fail("worker " + std::to_string(options.index) +
                " cannot create its event loop: " + uv_strerror(error));
  return worker;
}

Worker::Worker(const WorkerOptions& options, std::shared_ptr<TcpBudget> budget)
    : options_(options), budget_(std::move(budget)) {}

std::chrono::milliseconds Worker::tcp_idle_timeout() const { return tcp_->idle_timeout(); }

int Worker::init_loop() {
  if (const int error = uv_loop_init(&loop_); error != 0) return error;
  loop_ready_ = true;
  loop_.data = this;
  if (const int error = mailbox_.open(&loop_); error != 0) {
    check_loop(uv_loop_close(&loop_), "close: a handle is open");
    loop_ready_ = false;
    return error;
  }
  uv_check_init(&loop_, &after_poll_);
  uv_prepare_init(&loop_, &before_poll_);
  timer_.open(&loop_, [this] { tick(); });
  drain_timer_.open(&loop_, [this] { drain_tick(); });
  udp_ = std::make_unique<UdpServer>(&loop_, counters_, options_.reach_probes);
  tcp_ = std::make_unique<TcpServer>(&loop_, counters_, budget_, options_.index);
  budget_->join(options_.index, [this](const TcpBudget::ConnectionId& id) {
    post([this, id] { tcp_->make_room(id); });
  });
  return 0;
}

Worker::~Worker() {
  if (!loop_ready_) return;
  budget_->leave(options_.index);
  if (timer_.is_open()) {  // never started
    udp_->close_all();
    tcp_->close_all();
    close_own_handles();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  check_loop(uv_loop_close(&loop_), "close: a handle is open");
}

void Worker::close_own_handles() {
  mailbox_.close();
  uv_close(reinterpret_cast<uv_handle_t*>(&after_poll_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&before_poll_), nullptr);
  timer_.close();
  drain_timer_.close();
}

Result<void> Worker::start(const ListenerSet& listeners, QuerySink& sink) {
  sink_ = &sink;
  udp_->set_sink(&sink);
  tcp_->set_sink(&sink);
  if (const int error = serve(listeners); error != 0)
    return fail("worker " + std::to_string(options_.index) +
                " cannot poll its sockets: " + uv_strerror(error));
  // Late replies are sent after what made them: callbacks of sockets run before the check, those of
  // timers before the prepare.
  check_loop(uv_check_start(&after_poll_,
                            [](uv_check_t* h) { static_cast<Worker*>(h->loop->data)->flush(); }),
             "call after each poll");
  check_loop(
      uv_prepare_start(&before_poll_,
                       [](uv_prepare_t* h) { static_cast<Worker*>(h->loop->data)->flush(); }),
      "call before each poll");
  timer_.repeat(kTick);

  // Signals are the control thread's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Worker::run() {
  pthread_setname_np(pthread_self(), ("worker-" + std::to_string(options_.index)).c_str());
  if (options_.cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<unsigned>(options_.cpu), &cpus);
    // A core that this process may not use: then any.
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
  }
  uv_run(&loop_, UV_RUN_DEFAULT);
}

void Worker::post(std::move_only_function<void()> task) { mailbox_.post(std::move(task)); }

void Worker::send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) {
  reply_to.client.tcp ? tcp_->send_later(reply_to, message) : udp_->send_later(reply_to, message);
}

void Worker::drop(const ReplyTo& reply_to) {
  if (reply_to.client.tcp) tcp_->drop(reply_to);
}

void Worker::flush() {
  udp_->flush();
  tcp_->flush();
}

void Worker::tick() {
  tcp_->sweep();
  if (++ticks_ % kTicksPerSecond == 0) {
    counters_.heartbeat.add();
    udp_->count_overflow();
  }
  if (retired_at_ == 0) return;
  if (sink_->in_flight() > 0 && uv_now(&loop_) - retired_at_ < kRetiredMs) return;
  udp_->close_retired();
  retired_at_ = 0;
}

// New sockets first, then those that are no longer in the set.
int Worker::serve(const ListenerSet& listeners, Waiting waiting) {
  std::vector<SocketAddress> own;
  std::vector<const ListenSocket*> wanted;
  int first_error = 0;
  const auto add = [&](auto& server, const std::vector<std::shared_ptr<ListenSocket>>& sockets) {
    // More than one where another process with more workers has opened them.
    for (std::size_t i = options_.index; i < sockets.size(); i += listeners.workers()) {
      wanted.push_back(sockets[i].get());
      if (server.has(*sockets[i])) continue;
      const int error = server.add(sockets[i]);
      if (first_error == 0) first_error = error;
    }
  };
  for (const Listener& listener : listeners.listeners()) {
    own.push_back(listener.address);
    add(*udp_, listener.udp);
    add(*tcp_, listener.tcp);
  }
  udp_->set_own_addresses(std::move(own));
  const auto retire_rest = [&](auto& server) {
    for (const ListenSocket* socket : server.sockets()) {
      if (std::find(wanted.begin(), wanted.end(), socket) != wanted.end()) continue;
      server.retire(*socket, waiting);
      retired_at_ = uv_now(&loop_);
    }
  };
  retire_rest(*udp_);
  retire_rest(*tcp_);
  return first_error;
}

void Worker::change_listeners(ListenerSet listeners) {
  // Only this worker's sockets are kept by it: the set goes with the task.
  post([this, listeners = std::move(listeners)] {
    if (!draining_) serve(listeners);
  });
}

void Worker::stop_reading() {
  post([this] {
    udp_->stop_reading();
    tcp_->stop_accepting();
  });
}

void Worker::read_again() {
  post([this] {
    udp_->read_again();
    tcp_->accept_again();
  });
}

void Worker::drain(std::chrono::milliseconds limit, Waiting waiting) {
  post([this, limit, waiting] {
    if (std::exchange(draining_, true)) return;
    drain_until_ = uv_now(&loop_) + static_cast<std::uint64_t>(limit.count());
    serve(ListenerSet(), waiting);
    waiting == Waiting::Answered ? tcp_->drain() : tcp_->drain_patiently();
    drain_timer_.start(std::chrono::milliseconds(0));
  });
}

void Worker::drain_tick() {
  flush();
  tcp_->sweep();
  const bool busy = sink_->in_flight() > 0 || tcp_->has_connections();
  if (busy && uv_now(&loop_) < drain_until_) return drain_timer_.start(kDrainTick);
  finish();
}

void Worker::finish() {
  flush();
  udp_->close_all();
  tcp_->close_all();
  sink_->on_stop();
  close_own_handles();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace meshdns::dnsd
