// SPDX-License-Identifier: Apache-2.0
// The listening address of the admin endpoint: an address with a port, or a Unix socket.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

// An absolute path in the file system, of at most kMaxLength octets.
struct UnixAddress {
  static constexpr std::size_t kMaxLength = 107;  // sun_path of unix(7), with its final NUL
  std::string path;
  friend bool operator==(const UnixAddress&, const UnixAddress&) = default;
};

using AdminAddress = std::variant<SocketAddress, UnixAddress>;

inline bool is_unix(const AdminAddress& address) {
  return std::holds_alternative<UnixAddress>(address);
}

// The path of "SCHEME:PATH".  An Error, which shows an `example`, unless it is an absolute path of
// at most `max_length` octets to something that may be a file.
Result<std::string> parse_path_of_scheme(std::string_view text, std::string_view example,
                                         std::size_t max_length = UnixAddress::kMaxLength);

// "127.0.0.1:15054", "unix:/run/meshdns/admin.sock": the form that parse_admin_address() reads.
std::string to_string(const AdminAddress& address);
Result<AdminAddress> parse_admin_address(std::string_view text);

// Returns whether only one of both can be bound at a time: 127.0.0.1:15054 and 0.0.0.0:15054, say,
// or two spellings of one path.  Port 0 is a free port each time.
bool need_one_place(const AdminAddress& a, const AdminAddress& b);

// Returns why no socket can be bound to the path, as far as that shows without a try; empty: one
// can, or the path has a socket, which may be this daemon's own.
std::string obstacle_at(const UnixAddress& address);

}  // namespace meshdns::dnsd
