// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/loop_queue.hpp"

#include <string>
#include <utility>

namespace meshdns::dnsd {

Result<std::unique_ptr<LoopQueue>> LoopQueue::open(uv_loop_t* loop) {
  std::unique_ptr<LoopQueue> queue(new LoopQueue);
  auto handle = std::make_unique<uv_async_t>();
  const int status = uv_async_init(loop, handle.get(), [](uv_async_t* wakeup) {
    static_cast<LoopQueue*>(wakeup->data)->run_one();
  });
  if (status != 0)
    return fail(std::string("cannot wake an event loop from another thread: ") +
                uv_strerror(status));
  handle->data = queue.get();
  queue->wakeup_ = handle.release();
  return queue;
}

LoopQueue::~LoopQueue() {
  if (wakeup_ == nullptr) return;
  uv_close(reinterpret_cast<uv_handle_t*>(wakeup_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_async_t*>(handle); });
}

void LoopQueue::push(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  uv_async_send(wakeup_);
}

void LoopQueue::run_one() {
  Task task;
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.empty()) return;
    task = std::move(tasks_.front());
    tasks_.pop_front();
    if (!tasks_.empty()) uv_async_send(wakeup_);
  }
  task();
}

}  // namespace meshdns::dnsd
