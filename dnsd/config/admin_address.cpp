// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/admin_address.hpp"

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

}  // namespace

std::string to_string(const AdminAddress& address) {
  if (const auto* local = std::get_if<UnixAddress>(&address))
    return std::string(kUnixScheme) + local->path;
  return std::get<SocketAddress>(address).to_string();
}

Result<std::string> parse_path_of_scheme(std::string_view text, std::string_view example,
                                         std::size_t max_length) {
  const std::string_view path = text.substr(text.find(':') + 1);
  if (!path.starts_with('/') || path.ends_with('/') || path.find('\0') != std::string_view::npos)
    return fail(in_quotes(text) + " is not an absolute path; write " + std::string(example));
  if (path.size() > max_length)
    return fail(in_quotes(text) + " is longer than " + std::to_string(max_length) +
                " bytes, the maximum for the path of a socket");
  return std::string(path);
}

Result<AdminAddress> parse_admin_address(std::string_view text) {
  if (!text.starts_with(kUnixScheme)) {
    const auto address = parse_socket_address(text);
    if (!address) return std::unexpected(address.error());
    return *address;
  }
  auto path = parse_path_of_scheme(text, "unix:/run/meshdns/admin.sock");
  if (!path) return std::unexpected(path.error());
  return UnixAddress{*std::move(path)};
}

}  // namespace meshdns::dnsd
