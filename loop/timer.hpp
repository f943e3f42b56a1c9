// SPDX-License-Identifier: Apache-2.0
// A timer of a libuv loop.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>

namespace meshdns::loop {

// The loop's thread only.  The callback may stop, start or destroy the timer.
class Timer {
 public:
  using Callback = std::function<void()>;

  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { stop(); }

  // Calls `callback` once after `delay`; what was started before is forgotten.
  // REQUIRES: `loop` runs, or is run to its end, after stop().
  void start(uv_loop_t* loop, std::chrono::milliseconds delay, Callback callback);
  // Calls it every `interval`.
  void repeat(uv_loop_t* loop, std::chrono::milliseconds interval, Callback callback);
  // Nothing is called after this.
  void stop();

  // Returns whether a call is still to come.
  bool is_active() const { return handle_ != nullptr && uv_is_active(as_handle()) != 0; }

 private:
  // libuv keeps the handle until its close callback, which frees it.
  struct Handle {
    uv_timer_t timer{};
    Callback callback;
  };

  void open(uv_loop_t* loop, std::chrono::milliseconds delay, std::chrono::milliseconds interval,
            Callback callback);
  uv_handle_t* as_handle() const { return reinterpret_cast<uv_handle_t*>(&handle_->timer); }

  Handle* handle_ = nullptr;
};

}  // namespace meshdns::loop
