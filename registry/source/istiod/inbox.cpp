// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/inbox.hpp"

#include <utility>

namespace meshdns::registry::istiod {

void Inbox::stop_waiting() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

void Inbox::on_connected() {
  mailbox_.post([this] { owner_.on_connected(); });
}

std::optional<std::string> Inbox::on_push(const Push& push, MessageReader& reader) {
  auto difference = held_.take(push, reader);
  if (!difference) {
    on_unreadable(difference.error().message, push.bytes);
    return std::move(difference.error().message);
  }
  Names names{*std::move(difference), push.version, push.bytes, held_.size(), held_.refused()};
  deliver([this, names = std::move(names)]() mutable { owner_.on_names(std::move(names)); });
  return std::nullopt;
}

void Inbox::on_unreadable(const std::string& why, std::size_t bytes) {
  deliver([this, why, bytes] { owner_.on_refused(why, bytes); });
}

void Inbox::deliver(loop::Mailbox::Task task) {
  std::unique_lock lock(mutex_);
  is_under_way_ = true;
  mailbox_.post([this, task = std::move(task)]() mutable {
    task();
    const std::lock_guard done(mutex_);
    is_under_way_ = false;
    changed_.notify_all();
  });
  changed_.wait(lock, [this] { return !is_under_way_ || is_stopped_; });
}

void Inbox::on_end(const std::string& why) {
  mailbox_.post([this, why] { owner_.on_end(why); });
}

}  // namespace meshdns::registry::istiod
