// SPDX-License-Identifier: Apache-2.0
// A timer of a libuv loop.
#pragma once

#include <chrono>

#include "registry/base/handle.hpp"

namespace meshdns::loop {

// The loop's thread only.  The callback may stop, start, close or destroy the timer (handle.hpp).
class Timer : public Handle<uv_timer_t, void()> {
 public:
  // Without a loop: open() comes first.
  Timer() = default;
  Timer(uv_loop_t* loop, Callback callback) { open(loop, std::move(callback)); }

  // Sets the callback.  A timer that was open is closed first.
  void open(uv_loop_t* loop, Callback callback);

  // REQUIRES for start() and repeat(): is_open().

  // Calls back once after `delay`, and forgets what was started before.  A negative delay is none.
  void start(std::chrono::milliseconds delay);
  // Calls back every `interval`, and forgets what was started before.
  void repeat(std::chrono::milliseconds interval);
  // Forgets what was started.  The timer may be started again.
  void stop();
};

}  // namespace meshdns::loop
