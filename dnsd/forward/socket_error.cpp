#include "dnsd/forward/socket_error.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace meshdns::dnsd {
namespace {

constexpr rlim_t kReserve = 32;

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
  constexpr int kAny = std::numeric_limits<int>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(kAny))
    return kAny;
  return static_cast<int>(limit.rlim_cur - std::min(kReserve, limit.rlim_cur / 8)) - 1;
}

SocketError too_many_sockets() {
  return {"no socket: the descriptors that are left are kept for other ends", true};
}

}  // namespace meshdns::dnsd
