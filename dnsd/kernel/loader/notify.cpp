// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::kernel {

void notify(const char* state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
  const std::string_view name(path);
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, name.size());
  if (name.starts_with('@')) address.sun_path[0] = '\0';  // an abstract name
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  ::sendto(fd.get(), state, std::strlen(state), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
}

}  // namespace meshdns::kernel
