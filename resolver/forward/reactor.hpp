// SPDX-License-Identifier: Apache-2.0
// The part of an event loop that the forwarder uses: sockets and timers, cheap enough to use a
// socket for one query only.
//
// uv_poll costs three system calls more per socket than epoll itself (a trial ADD and DEL, and an
// ioctl), and a uv handle must outlive its closing.  So our sockets are in an epoll set of their
// own, which the uv loop sees as one descriptor; timers are a map with one loop::Timer.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "registry/base/handle.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/forward/lifetime.hpp"

namespace meshdns::dnsd {

class Reactor;

// Hears when a socket is ready.  May close any SocketWatch, its own included.  It outlives the
// call: it is a part of a Retirable object, or is destroyed outside of the reactor's calls only.
class SocketListener {
 public:
  // `events`: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.
  virtual void on_socket(std::uint32_t events) = 0;

 protected:
  ~SocketListener() = default;
};

// Owns a non-blocking socket and has it watched.
class SocketWatch {
 public:
  SocketWatch() = default;
  // REQUIRES: `fd` is open; it is closed with this.  The reactor outlives this.  Where the system
  // has no room to watch it, it is closed at once, and errno says why.
  SocketWatch(Reactor& reactor, int fd, std::uint32_t events, SocketListener& listener);
  ~SocketWatch() { reset(); }
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;
  SocketWatch(SocketWatch&& other) noexcept { *this = std::move(other); }
  SocketWatch& operator=(SocketWatch&& other) noexcept;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void set_events(std::uint32_t events);
  void set_listener(SocketListener& listener);
  void reset();

 private:
  Reactor* reactor_ = nullptr;
  int fd_ = -1;
  std::uint32_t slot_ = 0;
  std::uint32_t events_ = 0;
};

// One point in time; stopped when destroyed.  As a SocketListener, it outlives the call.
class Timer {
 public:
  // REQUIRES: the reactor outlives this.
  Timer(Reactor& reactor, std::move_only_function<void()> callback)
      : reactor_(reactor), callback_(std::move(callback)) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Calls back once at `at` or as soon as the loop gets there, after the listeners of sockets that
  // are ready then; never from inside.
  void start(Millis at);
  void stop();
  bool is_running() const { return running_; }
  Millis at() const { return running_ ? position_->first : 0; }

 private:
  friend class Reactor;
  Reactor& reactor_;
  std::move_only_function<void()> callback_;
  std::multimap<Millis, Timer*>::iterator position_;
  bool running_ = false;
};

// The loop's thread only.  Each call of a listener or of a timer is a turn (lifetime.hpp).
class Reactor {
 public:
  explicit Reactor(uv_loop_t* loop);
  // REQUIRES: not inside a turn.
  ~Reactor() { close(); }
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  Millis now() const { return uv_now(loop_); }

  // The list for retired objects that this reactor calls.
  RetireList& retired() { return retired_; }

  // Closes the handles; nothing is called any more, also when this is called from inside.  Their
  // close callbacks run when the loop does, also after the Reactor is gone.
  void close();

 private:
  friend class SocketWatch;
  friend class Timer;
  struct Slot {
    SocketListener* listener = nullptr;  // null = free
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };

  // False: the system has no room; errno says why.
  bool watch(int fd, std::uint32_t events, SocketListener& listener, std::uint32_t& slot);
  bool is_closed() const { return epoll_fd_ < 0; }
  void change(int fd, std::uint32_t slot, std::uint32_t events);
  void unwatch(std::uint32_t slot);
  void arm();
  // True: there may be more that are ready.
  bool run_sockets();
  void run_timers();

  RetireList retired_;
  uv_loop_t* loop_;
  int epoll_fd_;       // -1 = closed
  loop::Poll poll_;    // of epoll_fd_
  loop::Timer timer_;  // for the first of timers_
  std::vector<Slot> slots_;
  std::uint32_t first_free_ = 0;
  std::multimap<Millis, Timer*> timers_;
  Millis armed_for_ = 0;  // 0 = not armed
};

}  // namespace meshdns::dnsd
