// SPDX-License-Identifier: Apache-2.0
#include "registry/base/handle.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace meshdns {

void check_loop(int status, const char* what) {
  if (status >= 0) [[likely]]
    return;
  (void)std::fprintf(stderr, "meshdnsd: the event loop fails to %s: %s\n", what,
                     std::strerror(-status));
  std::abort();
}

}  // namespace meshdns

namespace meshdns::loop {

Idle::Idle(uv_loop_t* loop, Callback callback) {
  check_loop(
      begin(std::move(callback), [loop](uv_idle_t* idle) { return uv_idle_init(loop, idle); }),
      "have work for each turn");
}

void Idle::start() { check_loop(uv_idle_start(get(), call), "have work for each turn"); }

void Idle::stop() { check_loop(uv_idle_stop(get()), "have no more work"); }

int Poll::open(uv_loop_t* loop, int fd, Callback callback) {
  return begin(std::move(callback),
               [loop, fd](uv_poll_t* poll) { return uv_poll_init(loop, poll, fd); });
}

void Poll::watch(int events) {
  check_loop(events == 0 ? uv_poll_stop(get()) : uv_poll_start(get(), events, call),
             "watch a descriptor");
}

void Timer::open(uv_loop_t* loop, Callback callback) {
  check_loop(
      begin(std::move(callback), [loop](uv_timer_t* timer) { return uv_timer_init(loop, timer); }),
      "make a timer");
}

void Timer::start(std::chrono::milliseconds delay) {
  const auto wait =
      static_cast<std::uint64_t>(std::max(delay.count(), std::chrono::milliseconds::rep{0}));
  check_loop(uv_timer_start(get(), call, wait, 0), "start a timer");
}

void Timer::repeat(std::chrono::milliseconds interval) {
  const auto each = static_cast<std::uint64_t>(interval.count());
  check_loop(uv_timer_start(get(), call, each, each), "start a timer");
}

void Timer::stop() {
  if (is_open()) uv_timer_stop(get());
}

}  // namespace meshdns::loop
