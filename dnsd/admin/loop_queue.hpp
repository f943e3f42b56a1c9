// SPDX-License-Identifier: Apache-2.0
// Runs tasks on the thread of a libuv loop, for other threads.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Tasks run in the order in which they were pushed, one per turn of the loop, so that many of them
// do not hold up the loop's other work.
class LoopQueue {
 public:
  using Task = std::move_only_function<void()>;

  // REQUIRES: the loop's thread, or the loop does not run yet.
  static Result<std::unique_ptr<LoopQueue>> open(uv_loop_t* loop);
  // Discards the tasks that have not run. REQUIRES: the loop's thread, not inside a task; no other
  // thread calls push() any more; the loop runs on until its handles are closed.
  ~LoopQueue();
  LoopQueue(const LoopQueue&) = delete;
  LoopQueue& operator=(const LoopQueue&) = delete;

  // Any thread.
  void push(Task task);

 private:
  LoopQueue() = default;
  void run_one();

  uv_async_t* wakeup_ = nullptr;  // freed by its close callback
  std::mutex mutex_;
  std::deque<Task> tasks_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
