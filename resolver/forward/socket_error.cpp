// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/socket_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "registry/base/descriptor_limit.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint32_t kReserve = 32;

}  // namespace

bool is_shortage(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EAGAIN:      // no port to bind to
    case EADDRINUSE:  // the same
    case ENOSPC:      // fs.epoll.max_user_watches
      return true;
    default:
      return false;
  }
}

SocketError socket_error(std::string_view what, int error) {
  return {std::string(what) + ": " + std::strerror(error), is_shortage(error)};
}

int highest_upstream_descriptor() {
  const std::uint32_t limit = descriptor_limit();
  return static_cast<int>(limit - std::min(kReserve, limit / 8)) - 1;
}

SocketError too_many_sockets() {
  return {"no socket: the remaining file descriptors are reserved", true};
}

}  // namespace meshdns::dnsd
