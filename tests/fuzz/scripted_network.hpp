// SPDX-License-Identifier: Apache-2.0
// A network and a clock that a fuzz target's script drives.  The linker puts these in place of the
// system's (see CMakeLists.txt): each socket that the code under test opens is one end of a socket
// pair, of which the script has the other, and time passes when the script says so.  One thread.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace meshdns::fuzz {

class ScriptedNetwork {
 public:
  // The other end of a socket that was connected.
  struct Peer {
    int fd;  // owned by whoever takes it from accepted(), who calls close_peer()
    bool is_stream;
    std::uint16_t port;  // that the socket was connected to
  };

  static ScriptedNetwork& get();

  // Begins anew; nothing may be open.
  void reset();

  std::uint64_t now() const { return now_; }
  void stall(std::uint64_t milliseconds) { now_ += milliseconds; }
  // Lets time pass; `settle` runs after each timer, and at the end.
  void pass(std::uint64_t milliseconds, const std::function<void()>& settle);
  // Calls the timers that are due; true if there were any.
  bool fire_due();

  // Connections to this port fail from now on, or no more.
  void refuse(std::uint16_t port, bool refused);
  // The peers of sockets connected since the last call.
  std::vector<Peer> accepted() { return std::exchange(accepted_, {}); }

  // Whether the code under test has closed its end.  A datagram socket does not say so.
  bool is_left(int peer) const { return left_.contains(peer); }
  void close_peer(int peer);
  // Sockets of the code under test that are open.
  std::size_t open_sockets() const { return peers_.size(); }

  // Calls of the code under test.
  int open_socket(int domain, int type);
  void close_socket(int fd);
  int connect(int fd, std::uint16_t port);
  void start_timer(uv_timer_t* timer, uv_timer_cb callback, std::uint64_t delay);
  void forget_timer(uv_timer_t* timer) { timers_.erase(timer); }

 private:
  struct Alarm {
    uv_timer_cb callback;
    std::uint64_t due;
  };
  std::map<uv_timer_t*, Alarm>::iterator next_alarm();

  std::uint64_t now_ = 0;
  std::map<uv_timer_t*, Alarm> timers_;
  std::map<int, Peer> peers_;  // by the descriptor of the code under test
  std::set<int> left_;         // peers whose sockets are closed
  std::vector<Peer> accepted_;
  std::set<std::uint16_t> refused_;
};

}  // namespace meshdns::fuzz
