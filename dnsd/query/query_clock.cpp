// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/query_clock.hpp"

#include <chrono>
#include <ctime>
#include <utility>

namespace meshdns::dnsd {

// The task may ask to be called again.
LoopClock::LoopClock(uv_loop_t* loop)
    : loop_(loop), timer_(loop, [this] { std::exchange(task_, nullptr)(); }) {}

std::uint32_t LoopClock::unix_time() { return static_cast<std::uint32_t>(std::time(nullptr)); }

void LoopClock::call_at(Millis when, std::function<void()> task) {
  if (!timer_.is_open()) return;
  task_ = std::move(task);
  const Millis now = uv_now(loop_);
  timer_.start(std::chrono::milliseconds(when > now ? when - now : 0));
}

}  // namespace meshdns::dnsd
