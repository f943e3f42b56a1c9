// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/scripted_network.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/fuzz/require.hpp"

namespace meshdns::fuzz {
namespace {

constexpr std::uint64_t kStart = 1'000'000;

}  // namespace

ScriptedNetwork& ScriptedNetwork::get() {
  static ScriptedNetwork network;
  return network;
}

void ScriptedNetwork::reset() {
  require(timers_.empty() && peers_.empty() && accepted_.empty() && left_.empty());
  refused_.clear();
  now_ = kStart;
}

std::map<uv_timer_t*, ScriptedNetwork::Alarm>::iterator ScriptedNetwork::next_alarm() {
  return std::ranges::min_element(timers_, {}, [](const auto& item) { return item.second.due; });
}

bool ScriptedNetwork::fire_due() {
  bool fired = false;
  // A timer that is started anew for now waits for the next call.
  for (std::size_t left = timers_.size(); left > 0; --left) {
    const auto next = next_alarm();
    if (next == timers_.end() || next->second.due > now_) break;
    uv_timer_t* const timer = next->first;
    const Alarm alarm = next->second;
    timers_.erase(next);
    alarm.callback(timer);
    fired = true;
  }
  return fired;
}

void ScriptedNetwork::pass(std::uint64_t milliseconds, const std::function<void()>& settle) {
  const std::uint64_t end = now_ + milliseconds;
  for (auto next = next_alarm(); next != timers_.end() && next->second.due <= end;
       next = next_alarm()) {
    now_ = std::max(now_, next->second.due);
    fire_due();
    settle();
  }
  now_ = std::max(now_, end);
  settle();
}

void ScriptedNetwork::refuse(std::uint16_t port, bool refused) {
  if (refused)
    refused_.insert(port);
  else
    refused_.erase(port);
}

int ScriptedNetwork::open_socket(int domain, int type) {
  int ends[2];
  if (domain != AF_INET || ::socketpair(AF_UNIX, type, 0, ends) != 0) return -1;
  const bool is_stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
  peers_.emplace(ends[0], Peer{ends[1], is_stream, 0});
  return ends[0];
}

int ScriptedNetwork::connect(int fd, std::uint16_t port) {
  Peer& peer = peers_.at(fd);
  if (refused_.contains(port)) {
    errno = ECONNREFUSED;
    return -1;
  }
  peer.port = port;
  accepted_.push_back(peer);
  return 0;
}

void ScriptedNetwork::close_socket(int fd) {
  const auto node = peers_.extract(fd);
  if (node.empty()) return;
  const Peer& peer = node.mapped();
  if (peer.fd < 0) return;
  if (peer.port != 0)
    left_.insert(peer.fd);
  else
    ::close(peer.fd);  // was never connected
}

void ScriptedNetwork::close_peer(int peer) {
  left_.erase(peer);
  // Its socket is still open: nobody is to be told of the peer again.
  for (auto& [fd, each] : peers_)
    if (each.fd == peer) each.fd = -1;
  ::close(peer);
}

void ScriptedNetwork::start_timer(uv_timer_t* timer, uv_timer_cb callback, std::uint64_t delay) {
  timers_[timer] = {callback, now_ + delay};
}

}  // namespace meshdns::fuzz

using meshdns::fuzz::ScriptedNetwork;

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the linker's names.
extern "C" {

int __wrap_socket(int domain, int type, int) {
  return ScriptedNetwork::get().open_socket(domain, type);
}

int __wrap_bind(int, const sockaddr*, socklen_t) { return 0; }

int __wrap_connect(int fd, const sockaddr* address, socklen_t) {
  return ScriptedNetwork::get().connect(
      fd, ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port));
}

int __real_close(int fd);
int __wrap_close(int fd) {
  ScriptedNetwork::get().close_socket(fd);
  return __real_close(fd);
}

std::uint64_t __wrap_uv_now(const uv_loop_t*) { return ScriptedNetwork::get().now(); }

std::uint64_t __wrap_uv_hrtime() { return ScriptedNetwork::get().now() * 1'000'000; }

int __wrap_uv_timer_start(uv_timer_t* timer, uv_timer_cb callback, std::uint64_t delay,
                          std::uint64_t) {
  ScriptedNetwork::get().start_timer(timer, callback, delay);
  return 0;
}

void __real_uv_close(uv_handle_t* handle, uv_close_cb callback);
void __wrap_uv_close(uv_handle_t* handle, uv_close_cb callback) {
  ScriptedNetwork::get().forget_timer(reinterpret_cast<uv_timer_t*>(handle));
  __real_uv_close(handle, callback);
}
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
