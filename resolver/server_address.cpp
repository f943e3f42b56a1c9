// SPDX-License-Identifier: Apache-2.0
#include "resolver/server_address.hpp"

#include <net/if.h>

#include <charconv>
#include <system_error>

namespace meshdns::resolver {

std::optional<ServerAddress> ServerAddress::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  ServerAddress server;
  server.text = text;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), server.port);
  if (error != std::errc() || end != port.data() + port.size() || server.port == 0)
    return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (const std::size_t percent = host.find('%'); percent != std::string_view::npos) {
    server.scope = if_nametoindex(std::string(host.substr(percent + 1)).c_str());
    if (server.scope == 0) return std::nullopt;
    host = host.substr(0, percent);
  }
  const auto ip = IpAddress::parse(host);
  if (!ip) return std::nullopt;
  server.ip = *ip;
  return server;
}

}  // namespace meshdns::resolver
