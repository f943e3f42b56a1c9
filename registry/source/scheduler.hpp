// SPDX-License-Identifier: Apache-2.0
// Time, and work that is to be done later.  An interface, so that tests decide what time it is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry {

using Milliseconds = std::chrono::milliseconds;

// Destruction calls the work off; it may be destroyed by its own work.
class Timer {
 public:
  virtual ~Timer() = default;
};

// One thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual Milliseconds now() const = 0;  // monotonic, from any origin
  // REQUIRES: the timer is destroyed before the scheduler.
  [[nodiscard]] virtual std::unique_ptr<Timer> after(Milliseconds delay,
                                                     std::function<void()> work) = 0;
};

// On libuv's timers.  The loop must run on for the handles to close after destruction.
std::unique_ptr<Scheduler> make_uv_scheduler(uv_loop_s* loop);

}  // namespace meshdns::registry
