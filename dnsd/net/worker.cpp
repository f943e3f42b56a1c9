// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/worker.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/net/tcp_server.hpp"
#include "dnsd/net/udp_server.hpp"
#include "loop/check_loop.hpp"
#include "loop/mailbox.hpp"
#include "loop/timer.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr unsigned kTicksPerSecond = 4;
constexpr std::chrono::milliseconds kDrainTick{5};
// How long a listener that was taken away still sends late replies.
constexpr std::uint64_t kRetiredMs = 5000;

// The sockets of one worker in a set.
std::shared_ptr<ListenSocket> socket_of(const std::vector<std::shared_ptr<ListenSocket>>& sockets,
                                        unsigned worker) {
  return worker < sockets.size() ? sockets[worker] : nullptr;
}

}  // namespace

class Worker::Impl final : public ReplySender {
 public:
  Impl(const WorkerOptions& options, std::shared_ptr<TcpBudget> budget);
  ~Impl() override;
  int init_loop();

  uv_loop_t* loop() { return &loop_; }
  const WorkerCounters& counters() const { return counters_; }
  std::chrono::milliseconds tcp_idle_timeout() const { return tcp_->idle_timeout(); }

  Result<void> start(const ListenerSet& listeners, QuerySink& sink);
  void post(std::move_only_function<void()> task);
  void change_listeners(const ListenerSet& listeners);
  void drain(std::chrono::milliseconds limit);
  void join();

  void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) override {
    reply_to.client.tcp ? tcp_->send_later(reply_to, message) : udp_->send_later(reply_to, message);
  }
  void drop(const ReplyTo& reply_to) override {
    if (reply_to.client.tcp) tcp_->drop(reply_to);
  }

 private:
  void run();
  void flush();
  void tick();
  int serve(const ListenerSet& listeners);
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

Worker::Impl::Impl(const WorkerOptions& options, std::shared_ptr<TcpBudget> budget)
    : options_(options), budget_(std::move(budget)) {}

int Worker::Impl::init_loop() {
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
  udp_ = std::make_unique<UdpServer>(&loop_, counters_);
  tcp_ = std::make_unique<TcpServer>(&loop_, counters_, budget_, options_.index);
  budget_->join(options_.index, [this](const TcpBudget::ConnectionId& id) {
    post([this, id] { tcp_->make_room(id); });
  });
  return 0;
}

Worker::Impl::~Impl() {
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

void Worker::Impl::close_own_handles() {
  mailbox_.close();
  uv_close(reinterpret_cast<uv_handle_t*>(&after_poll_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&before_poll_), nullptr);
  timer_.close();
  drain_timer_.close();
}

Result<void> Worker::Impl::start(const ListenerSet& listeners, QuerySink& sink) {
  sink_ = &sink;
  udp_->set_sink(&sink);
  tcp_->set_sink(&sink);
  if (const int error = serve(listeners); error != 0)
    return fail("worker " + std::to_string(options_.index) +
                " cannot poll its sockets: " + uv_strerror(error));
  // Late replies are sent after what made them: callbacks of sockets run before the check, those of
  // timers before the prepare.
  check_loop(uv_check_start(&after_poll_,
                            [](uv_check_t* h) { static_cast<Impl*>(h->loop->data)->flush(); }),
             "call after each poll");
  check_loop(uv_prepare_start(&before_poll_,
                              [](uv_prepare_t* h) { static_cast<Impl*>(h->loop->data)->flush(); }),
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

void Worker::Impl::run() {
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

void Worker::Impl::post(std::move_only_function<void()> task) { mailbox_.post(std::move(task)); }

void Worker::Impl::flush() {
  udp_->flush();
  tcp_->flush();
}

void Worker::Impl::tick() {
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
int Worker::Impl::serve(const ListenerSet& listeners) {
  std::vector<SocketAddress> own;
  std::vector<const ListenSocket*> wanted;
  int first_error = 0;
  const auto add = [&](auto& server, const std::shared_ptr<ListenSocket>& socket) {
    if (!socket) return;
    wanted.push_back(socket.get());
    if (server.has(*socket)) return;
    const int error = server.add(socket);
    if (first_error == 0) first_error = error;
  };
  for (const Listener& listener : listeners.listeners()) {
    own.push_back(listener.address);
    add(*udp_, socket_of(listener.udp, options_.index));
    add(*tcp_, socket_of(listener.tcp, options_.index));
  }
  udp_->set_own_addresses(std::move(own));
  const auto retire_rest = [&](auto& server) {
    for (const ListenSocket* socket : server.sockets()) {
      if (std::find(wanted.begin(), wanted.end(), socket) != wanted.end()) continue;
      server.retire(*socket);
      retired_at_ = uv_now(&loop_);
    }
  };
  retire_rest(*udp_);
  retire_rest(*tcp_);
  return first_error;
}

void Worker::Impl::change_listeners(const ListenerSet& listeners) {
  // Only this worker's sockets are kept by it: the set goes with the task.
  post([this, listeners] {
    if (!draining_) serve(listeners);
  });
}

void Worker::Impl::drain(std::chrono::milliseconds limit) {
  post([this, limit] {
    if (std::exchange(draining_, true)) return;
    drain_until_ = uv_now(&loop_) + static_cast<std::uint64_t>(limit.count());
    serve(ListenerSet());
    tcp_->drain();
    drain_timer_.start(std::chrono::milliseconds(0));
  });
}

void Worker::Impl::drain_tick() {
  flush();
  tcp_->sweep();
  const bool busy = sink_->in_flight() > 0 || tcp_->has_connections();
  if (busy && uv_now(&loop_) < drain_until_) return drain_timer_.start(kDrainTick);
  finish();
}

void Worker::Impl::finish() {
  flush();
  udp_->close_all();
  tcp_->close_all();
  sink_->on_stop();
  close_own_handles();
}

void Worker::Impl::join() {
  if (thread_.joinable()) thread_.join();
}

// --- the public face -----------------------------------------------------------------------------

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() = default;

Result<std::unique_ptr<Worker>> Worker::create(const WorkerOptions& options,
                                               std::shared_ptr<TcpBudget> budget) {
  auto impl = std::make_unique<Impl>(options, std::move(budget));
  if (const int error = impl->init_loop(); error != 0)
    return fail("worker " + std::to_string(options.index) +
                " cannot create its event loop: " + uv_strerror(error));
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

uv_loop_t* Worker::loop() { return impl_->loop(); }
ReplySender& Worker::replies() { return *impl_; }
std::chrono::milliseconds Worker::tcp_idle_timeout() const { return impl_->tcp_idle_timeout(); }
Result<void> Worker::start(const ListenerSet& listeners, QuerySink& sink) {
  return impl_->start(listeners, sink);
}
void Worker::post(std::move_only_function<void()> task) { impl_->post(std::move(task)); }
void Worker::change_listeners(ListenerSet listeners) { impl_->change_listeners(listeners); }
void Worker::drain(std::chrono::milliseconds limit) { impl_->drain(limit); }
void Worker::join() { impl_->join(); }
const WorkerCounters& Worker::counters() const { return impl_->counters(); }

}  // namespace meshdns::dnsd
