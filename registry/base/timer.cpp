// SPDX-License-Identifier: Apache-2.0
#include "registry/base/timer.hpp"

#include <algorithm>
#include <cstdint>

#include "registry/base/check_loop.hpp"

namespace meshdns::loop {

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
