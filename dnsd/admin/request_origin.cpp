// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/request_origin.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {
namespace {

bool is_same_word(std::string_view a, std::string_view b) { return to_lower(a) == to_lower(b); }

// Returns whether `rest`, the text after the host, is empty or ":" and a port.
bool is_port_or_nothing(std::string_view rest) {
  if (rest.empty()) return true;
  if (!rest.starts_with(':') || rest.size() == 1 || rest.size() > 6) return false;
  rest.remove_prefix(1);
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  return error == std::errc() && stop == rest.data() + rest.size();
}

}  // namespace

bool is_own_host(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view address = host.substr(1, end - 1);
    return address.contains(':') && IpAddress::parse(address) &&
           is_port_or_nothing(host.substr(end + 1));
  }
  const auto end = std::min(host.find(':'), host.size());
  const std::string_view name = host.substr(0, end);
  const auto ip = IpAddress::parse(name);
  return (is_same_word(name, "localhost") || (ip && ip->is_v4())) &&
         is_port_or_nothing(host.substr(end));
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && is_same_word(origin.substr(kScheme.size()), host);
}

}  // namespace meshdns::dnsd
