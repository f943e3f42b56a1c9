// SPDX-License-Identifier: Apache-2.0
#include "loop/timer.hpp"

#include <utility>

#include "loop/check_loop.hpp"

namespace meshdns::loop {

void Timer::start(uv_loop_t* loop, std::chrono::milliseconds delay, Callback callback) {
  open(loop, delay, std::chrono::milliseconds(0), std::move(callback));
}

void Timer::repeat(uv_loop_t* loop, std::chrono::milliseconds interval, Callback callback) {
  open(loop, interval, interval, std::move(callback));
}

void Timer::open(uv_loop_t* loop, std::chrono::milliseconds delay,
                 std::chrono::milliseconds interval, Callback callback) {
  stop();
  handle_ = new Handle{{}, std::move(callback)};
  uv_timer_init(loop, &handle_->timer);
  handle_->timer.data = handle_;
  const auto call = [](uv_timer_t* timer) { static_cast<Handle*>(timer->data)->callback(); };
  check_loop(uv_timer_start(&handle_->timer, call, static_cast<std::uint64_t>(delay.count()),
                            static_cast<std::uint64_t>(interval.count())),
             "start a timer");
}

// The callback that runs may be the one that stops: its function lives until the loop closes it.
void Timer::stop() {
  if (handle_ == nullptr) return;
  uv_timer_stop(&handle_->timer);
  uv_close(as_handle(), [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
  handle_ = nullptr;
}

}  // namespace meshdns::loop
