// SPDX-License-Identifier: Apache-2.0
#include "tests/resolver/forward/shortages.hpp"

#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>

namespace meshdns::dnsd::test {
namespace {

std::atomic<bool> buffers_are_full{false};

bool is_udp(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

}  // namespace

FullSendBuffers::FullSendBuffers() { buffers_are_full = true; }
FullSendBuffers::~FullSendBuffers() { buffers_are_full = false; }

}  // namespace meshdns::dnsd::test

// In front of the C library's: no interface that a test can have is ever full.
extern "C" ssize_t send(int fd, const void* octets, size_t size, int flags) {
  using Send = ssize_t (*)(int, const void*, size_t, int);
  static const auto next = reinterpret_cast<Send>(::dlsym(RTLD_NEXT, "send"));
  if (meshdns::dnsd::test::buffers_are_full && meshdns::dnsd::test::is_udp(fd)) {
    errno = ENOBUFS;
    return -1;
  }
  return next(fd, octets, size, flags);
}
