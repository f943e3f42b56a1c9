// SPDX-License-Identifier: Apache-2.0
// The way from a stream's thread to the control thread.  At most one push is under way: the stream
// reads the next one when this one is in service, so that an istiod that pushes without end is
// held up by its own connection.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "registry/base/mailbox.hpp"
#include "registry/source/istiod/ads.hpp"
#include "registry/source/istiod/held_names.hpp"
#include "registry/source/istiod/held_workloads.hpp"

namespace meshdns::registry::istiod {

// By the API of the stream.
using Held = std::variant<HeldNames, HeldWorkloads>;

// A good push.
struct Names {
  HeldNames::Difference difference;
  std::string version;
  std::size_t bytes = 0;
  std::size_t size = 0;     // names or addresses that are held now
  std::size_t refused = 0;  // of them, those that are faulty now
};

// Control thread.
class InboxListener {
 public:
  virtual void on_connected() = 0;
  virtual void on_names(Names&& names) = 0;
  virtual void on_refused(const std::string& why, std::size_t bytes) = 0;
  virtual void on_end(const std::string& why) = 0;

 protected:
  ~InboxListener() = default;
};

// Control thread, except the calls of the listener.  Serves one stream at a time.
class Inbox final : public AdsListener {
 public:
  // REQUIRES: `owner` outlives the inbox.
  Inbox(Held held, InboxListener& owner) : owner_(owner), held_(std::move(held)) {}

  // Returns libuv's error.
  [[nodiscard]] int open(uv_loop_t* loop) { return mailbox_.open(loop); }
  // A push that waits for the control thread waits no longer, nor does any later one.
  void stop_waiting();
  // REQUIRES: there is no stream.
  void close() { mailbox_.close(); }
  // REQUIRES: there is no stream.
  std::vector<HeldResource> begin_stream();

  void on_connected() override;
  std::optional<std::string> on_push(const Push& push, MessageReader& reader) override;
  void on_unreadable(const std::string& why, std::size_t bytes) override;
  void on_end(const std::string& why) override;

 private:
  std::optional<std::string> take_names(HeldNames& held, const Push& push, NameInfoReader& reader);
  std::optional<std::string> take_workloads(HeldWorkloads& held, const Push& push,
                                            MessageReader& reader);
  void deliver(loop::Mailbox::Task task);

  InboxListener& owner_;
  Held held_;  // the stream's thread while there is a stream
  loop::Mailbox mailbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_under_way_ = false;  // guarded by mutex_
  bool is_stopped_ = false;    // guarded by mutex_
};

}  // namespace meshdns::registry::istiod
