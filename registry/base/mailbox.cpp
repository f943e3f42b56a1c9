// SPDX-License-Identifier: Apache-2.0
#include "registry/base/mailbox.hpp"

#include <iterator>
#include <utility>

namespace meshdns::loop {

int Mailbox::Wakeup::open(uv_loop_t* loop, Callback callback) {
  return begin(std::move(callback),
               [loop](uv_async_t* async) { return uv_async_init(loop, async, call); });
}

int Mailbox::open(uv_loop_t* loop, std::size_t tasks_per_turn) {
  const std::lock_guard lock(mutex_);
  tasks_per_turn_ = tasks_per_turn;
  return wakeup_.open(loop, [this] { run(); });
}

// The tasks are destroyed without the lock: what they hold may post.
void Mailbox::close() {
  std::vector<Task> dropped;
  const std::lock_guard lock(mutex_);
  wakeup_.close();
  dropped.swap(tasks_);
}

// The wakeup is sent under the lock, so that it is not closed meanwhile.
bool Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (!wakeup_.is_open()) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) wakeup_.send();
  return true;
}

// The tasks of one turn.
std::vector<Mailbox::Task> Mailbox::take() {
  std::vector<Task> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(tasks_);
  if (taken.size() <= tasks_per_turn_) return taken;
  const auto rest = taken.begin() + static_cast<std::ptrdiff_t>(tasks_per_turn_);
  tasks_.assign(std::make_move_iterator(rest), std::make_move_iterator(taken.end()));
  taken.erase(rest, taken.end());
  wakeup_.send();
  return taken;
}

void Mailbox::run() {
  for (Task& task : take()) {
    if (!wakeup_.is_open()) return;
    task();
  }
}

}  // namespace meshdns::loop
