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

std::vector<HeldResource> Inbox::begin_stream() {
  return std::visit([](auto& held) { return held.begin_stream(); }, held_);
}

std::optional<std::string> Inbox::on_push(const Push& push, MessageReader& reader) {
  if (auto* workloads = std::get_if<HeldWorkloads>(&held_))
    return take_workloads(*workloads, push, reader);
  return take_names(std::get<HeldNames>(held_), push, reader);
}

std::optional<std::string> Inbox::take_names(HeldNames& held, const Push& push,
                                             NameInfoReader& reader) {
  auto difference = held.take(push, reader);
  if (!difference) {
    on_unreadable(difference.error().message, push.bytes);
    return std::move(difference.error().message);
  }
  Names names{*std::move(difference), push.version, push.bytes, held.size(), held.refused()};
  deliver([this, names = std::move(names)]() mutable { owner_.on_names(std::move(names)); });
  return std::nullopt;
}

// The good resources of a push are taken, whatever the others are like.
std::optional<std::string> Inbox::take_workloads(HeldWorkloads& held, const Push& push,
                                                 MessageReader& reader) {
  HeldWorkloads::Difference difference = held.take(push, reader);
  Names names{{std::move(difference.changes), difference.changed},
              push.version,
              push.bytes,
              held.size(),
              held.refused()};
  deliver([this, names = std::move(names)]() mutable { owner_.on_names(std::move(names)); });
  if (difference.refusal.empty()) return std::nullopt;
  on_unreadable(difference.refusal, 0);
  return std::move(difference.refusal);
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
