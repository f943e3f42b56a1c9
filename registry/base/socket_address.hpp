// SPDX-License-Identifier: Apache-2.0
// Addresses of sockets: IP addresses with a port, as the configuration and resolv.conf write them,
// and names of Unix sockets.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct SocketAddress {
  IpAddress ip;
  std::uint16_t port = 0;
  std::string zone;  // interface name or index of a scoped IPv6 address ("eth0"); else empty

  // "127.0.0.1:53", "[::]:53", "[fe80::1%eth0]:53".
  std::string to_string() const;
  // Fills `out` and returns the length that connect() and bind() want.  An Error where the zone
  // names no interface of this machine (yet).
  Result<unsigned> to_sockaddr(sockaddr_storage& out) const;

  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
};

// "IP:PORT" or "[IP]:PORT" with an optional zone; IPv6 needs the brackets.
Result<SocketAddress> parse_socket_address(std::string_view text);
// As above, and "IP" or "[IP]" alone (IPv6 without brackets, too), which get `default_port`.
Result<SocketAddress> parse_socket_address(std::string_view text, std::uint16_t default_port);

// The name of a Unix socket in the file system (unix(7)).  nullopt: the path is empty, or longer
// than the kernel allows (107 bytes).
std::optional<sockaddr_un> unix_socket_name(std::string_view path);

}  // namespace meshdns::dnsd
