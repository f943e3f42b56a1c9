// SPDX-License-Identifier: Apache-2.0
// Watches the sockets of libcurl for a libuv loop, by an epoll instance of its own.
//
// A uv_poll_t for each socket would not do.  Libuv reports a connection that was reset (EPOLLERR)
// as a broken descriptor (UV_EBADF) and stops watching it, so that data that came before the reset
// is lost.  And the handle of a closed socket lives until the next turn of the loop, in which
// libcurl may already use the same descriptor number again.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "registry/base/result.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry::kubernetes {

// Control thread.
class SocketSet {
 public:
  // An error of the socket makes it readable and writable: reading or writing finds the error.
  struct Readiness {
    bool readable = false;
    bool writable = false;
  };
  // May call watch() and forget(), and may destroy the set.
  using Listener = std::function<void(int socket, Readiness ready)>;

  // An Error: no descriptor or no memory is left.  REQUIRES: the loop runs on for the handle to
  // close after destruction.
  static Result<std::unique_ptr<SocketSet>> open(uv_loop_s* loop, Listener listener);
  ~SocketSet();
  SocketSet(const SocketSet&) = delete;
  SocketSet& operator=(const SocketSet&) = delete;

  // Adds `socket`, or changes what it is watched for.  An Error leaves it unwatched.
  [[nodiscard]] Result<void> watch(int socket, Readiness interest);
  // Call before the socket is closed.  A socket that is not watched is ignored.
  void forget(int socket);

 private:
  struct Engine;
  explicit SocketSet(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  std::shared_ptr<Engine> engine_;
};

}  // namespace meshdns::registry::kubernetes
