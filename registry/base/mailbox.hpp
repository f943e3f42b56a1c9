// SPDX-License-Identifier: Apache-2.0
// Runs tasks on the thread of a libuv loop, for other threads.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "registry/base/handle.hpp"

namespace meshdns::loop {

// The loop's thread only, except post().  Tasks run in the order in which they were posted.
class Mailbox {
 public:
  using Task = std::move_only_function<void()>;
  static constexpr std::size_t kAllTasks = SIZE_MAX;

  Mailbox() = default;
  // REQUIRES: not inside a task; no other thread calls post() any more.
  ~Mailbox() { close(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Runs at most `tasks_per_turn` in one turn of the loop, so that slow tasks do not hold up the
  // loop's other work.  Returns libuv's error.  REQUIRES: called once; this thread, or the loop
  // does not run yet.
  [[nodiscard]] int open(uv_loop_t* loop, std::size_t tasks_per_turn = kAllTasks);
  // Destroys the tasks that have not run.  A task may call this.
  void close();
  // The loop may end while the mailbox is open.  REQUIRES: open() has succeeded.
  void unref() { wakeup_.unref(); }

  // Any thread.  Returns false, and destroys `task`, when the mailbox is not open.
  bool post(Task task);

 private:
  struct Wakeup : Handle<uv_async_t, void()> {
    int open(uv_loop_t* loop, Callback callback);
    void send() { uv_async_send(get()); }
  };

  std::vector<Task> take();
  void run();

  std::size_t tasks_per_turn_ = kAllTasks;
  std::mutex mutex_;
  Wakeup wakeup_;            // changed by the loop's thread under mutex_
  std::vector<Task> tasks_;  // guarded by mutex_
};

}  // namespace meshdns::loop
