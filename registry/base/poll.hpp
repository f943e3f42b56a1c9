// SPDX-License-Identifier: Apache-2.0
// A file descriptor that a libuv loop watches.
#pragma once

#include "registry/base/handle.hpp"

namespace meshdns::loop {

// The loop's thread only.  Does not own the descriptor.  The callback gets libuv's status and
// events; a negative status is an error, after which nothing is watched until the next watch().
// The callback may close or destroy the poll (handle.hpp).
class Poll : public Handle<uv_poll_t, void(int status, int events)> {
 public:
  // Returns libuv's error: the descriptor cannot be watched, or the system has no room for it.
  // REQUIRES: `fd` stays open until close().
  [[nodiscard]] int open(uv_loop_t* loop, int fd, Callback callback);
  // Watches for `events` (UV_READABLE, UV_WRITABLE) instead of those before; 0: for none.
  // REQUIRES: is_open().
  void watch(int events);
};

}  // namespace meshdns::loop
