// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/query_clock.hpp"

#include <ctime>

#include "loop/check_loop.hpp"

namespace meshdns::dnsd {

struct LoopClock::Timer {
  uv_timer_t handle;
  std::function<void()> task;
};

LoopClock::LoopClock(uv_loop_t* loop) : loop_(loop), timer_(new Timer) {
  uv_timer_init(loop, &timer_->handle);
  timer_->handle.data = timer_;
}

LoopClock::~LoopClock() { close(); }

std::uint32_t LoopClock::unix_time() { return static_cast<std::uint32_t>(std::time(nullptr)); }

void LoopClock::call_at(Millis when, std::function<void()> task) {
  if (timer_ == nullptr) return;
  timer_->task = std::move(task);
  const Millis now = uv_now(loop_);
  const auto run = [](uv_timer_t* handle) {
    // The task may ask to be called again.
    const std::function<void()> due = std::move(static_cast<Timer*>(handle->data)->task);
    if (due) due();
  };
  check_loop(uv_timer_start(&timer_->handle, run, when > now ? when - now : 0, 0), "start a timer");
}

void LoopClock::cancel() {
  if (timer_ != nullptr) uv_timer_stop(&timer_->handle);
}

void LoopClock::close() {
  if (timer_ == nullptr) return;
  auto* const handle = reinterpret_cast<uv_handle_t*>(&timer_->handle);
  timer_ = nullptr;
  uv_close(handle, [](uv_handle_t* closed) { delete static_cast<Timer*>(closed->data); });
}

}  // namespace meshdns::dnsd
