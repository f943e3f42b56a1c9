// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace meshdns {

// The name of a Unix socket in the file system (unix(7)).  nullopt: the path is empty, or longer
// than the kernel allows (107 bytes).
inline std::optional<sockaddr_un> unix_socket_name(std::string_view path) {
  sockaddr_un name{};
  if (path.empty() || path.size() >= sizeof name.sun_path) return std::nullopt;
  name.sun_family = AF_UNIX;
  std::ranges::copy(path, name.sun_path);
  return name;
}

}  // namespace meshdns
