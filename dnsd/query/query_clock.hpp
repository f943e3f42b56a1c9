// SPDX-License-Identifier: Apache-2.0
// Time as the query path sees it.
#pragma once

#include <uv.h>

#include <functional>

#include "registry/base/handle.hpp"
#include "resolver/cache/cached_message.hpp"

namespace meshdns::dnsd {

// One worker's thread only.
class QueryClock {
 public:
  virtual ~QueryClock() = default;
  // The time of the loop's iteration: cheap, monotonic.
  virtual Millis now() = 0;
  // Nanoseconds of the monotonic clock, read now: for durations.
  virtual std::uint64_t precise_now() = 0;
  // Unix time in seconds, for values that other servers read.
  virtual std::uint32_t unix_time() = 0;
  // Calls `task` once at `when` or soon after; replaces the previous task.
  virtual void call_at(Millis when, std::function<void()> task) = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
};

// A timer on the worker's loop.
class LoopClock final : public QueryClock {
 public:
  explicit LoopClock(uv_loop_t* loop);
  Millis now() override { return uv_now(loop_); }
  std::uint64_t precise_now() override { return uv_hrtime(); }
  std::uint32_t unix_time() override;
  void call_at(Millis when, std::function<void()> task) override;
  void cancel() override { timer_.stop(); }
  void close() override { timer_.close(); }

 private:
  uv_loop_t* loop_;
  std::function<void()> task_;
  loop::Timer timer_;
};

}  // namespace meshdns::dnsd
