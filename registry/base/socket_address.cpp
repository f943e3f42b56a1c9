// SPDX-License-Identifier: Apache-2.0
#include "registry/base/socket_address.hpp"

#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

struct Parts {
  std::string_view ip;
  std::optional<std::string_view> port;
};

// Splits without looking into the parts: "[IP]:PORT", "[IP]", "IP:PORT", "IP", bare IPv6.
Result<Parts> split(std::string_view text) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return fail(in_quotes(text) + " has no closing bracket");
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return Parts{text.substr(1, close - 1), std::nullopt};
    if (rest.front() != ':') return fail(in_quotes(text) + " has text after its closing bracket");
    return Parts{text.substr(1, close - 1), rest.substr(1)};
  }
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos)
    return Parts{text, std::nullopt};
  return Parts{text.substr(0, colon), text.substr(colon + 1)};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_padded = text.size() > 1 && text.front() == '0';  // octal to some readers
  if (error != std::errc{} || end != text.data() + text.size() || is_padded)
    return fail("port " + in_quotes(text) + " is not a number from 0 to 65535");
  return port;
}

// An interface name that Linux accepts, of printable characters.
bool is_zone(std::string_view zone) {
  return !zone.empty() && zone.size() < IF_NAMESIZE &&
         std::ranges::all_of(
             zone, [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != ']' && c != '%'; });
}

bool may_have_zone(const IpAddress& ip) {  // link-local unicast and multicast
  const auto& o = ip.octets();
  return ip.is_v6() && ((o[0] == 0xfe && (o[1] & 0xc0) == 0x80) || o[0] == 0xff);
}

// Habits of other servers.
std::string remedy_for_address(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos && IpAddress::parse(text.substr(0, at))) {
    const bool is_v6 = text.find(':') < at;
    const std::string ip(text.substr(0, at));
    return "; write " +
           in_quotes((is_v6 ? "[" + ip + "]:" : ip + ":") + std::string(text.substr(at + 1)));
  }
  if (text.empty()) return R"(; for all addresses write "0.0.0.0:PORT" and "[::]:PORT")";
  if (std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return "; a port alone is not enough: write \"127.0.0.1:" + std::string(text) + "\"";
  if (text.starts_with('/')) return "; a file cannot stand here";
  if (IpPrefix::parse(text)) return "; write one address, not a prefix";
  return {};
}

Result<SocketAddress> parse_ip_and_zone(std::string_view text) {
  const auto percent = text.find('%');
  const auto ip = IpAddress::parse(text.substr(0, percent));
  if (!ip) return fail(in_quotes(text) + " is not an IP address" + remedy_for_address(text));
  if (percent == std::string_view::npos) return SocketAddress{*ip, 0, ""};
  const std::string_view zone = text.substr(percent + 1);
  if (!may_have_zone(*ip)) return fail(in_quotes(text) + " has a zone but is not link-local");
  if (!is_zone(zone))
    return fail(in_quotes(text) + " has a zone that is not the name of an interface");
  return SocketAddress{*ip, 0, std::string(zone)};
}

// IPv6 with its port inside the brackets, or without brackets: "::1:53" is an address, too.
std::string with_port_outside(std::string_view ip) {
  const auto colon = ip.rfind(':');
  if (ip.find(':') == colon) return {};
  const std::string_view before = ip.substr(0, colon);
  if (!parse_port(ip.substr(colon + 1)) || !IpAddress::parse(before)) return {};
  return "[" + std::string(before) + "]:" + std::string(ip.substr(colon + 1));
}

std::unexpected<Error> fail_without_port(std::string_view text, std::string_view ip) {
  if (const std::string meant = with_port_outside(ip); !meant.empty())
    return fail(in_quotes(text) + " is an address without a port; if its end is the port, write " +
                in_quotes(meant));
  const std::string host = ip.contains(':') ? "[" + std::string(ip) + "]" : std::string(ip);
  return fail(in_quotes(text) + " needs a port, as in " + in_quotes(host + ":53"));
}

Result<SocketAddress> parse(std::string_view text, std::optional<std::uint16_t> default_port) {
  const auto parts = split(text);
  if (!parts) return std::unexpected(parts.error());
  auto address = parse_ip_and_zone(parts->ip);
  if (!address) return address;
  if (!parts->port) {
    if (!default_port) return fail_without_port(text, parts->ip);
    address->port = *default_port;
    return address;
  }
  const auto port = parse_port(*parts->port);
  if (!port) return std::unexpected(port.error());
  address->port = *port;
  return address;
}

}  // namespace

std::string SocketAddress::to_string() const {
  const std::string digits = std::to_string(port);
  if (ip.is_v4()) return ip.to_string() + ":" + digits;
  std::string text = "[";
  text += ip.to_string();
  if (!zone.empty()) text += '%' + zone;
  return text + "]:" + digits;
}

Result<unsigned> SocketAddress::to_sockaddr(sockaddr_storage& out) const {
  std::memset(&out, 0, sizeof out);
  if (ip.is_v4()) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&out);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, ip.octets().data() + 12, 4);
    return static_cast<unsigned>(sizeof *v4);
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  std::memcpy(&v6->sin6_addr, ip.octets().data(), 16);
  if (zone.empty()) return static_cast<unsigned>(sizeof *v6);
  unsigned index = ::if_nametoindex(zone.c_str());
  if (index == 0) std::from_chars(zone.data(), zone.data() + zone.size(), index);
  if (index == 0) return fail(to_string() + ": no such interface: " + in_quotes(zone));
  v6->sin6_scope_id = index;
  return static_cast<unsigned>(sizeof *v6);
}

Result<SocketAddress> parse_socket_address(std::string_view text) {
  return parse(text, std::nullopt);
}

Result<SocketAddress> parse_socket_address(std::string_view text, std::uint16_t default_port) {
  return parse(text, default_port);
}

std::optional<sockaddr_un> unix_socket_name(std::string_view path) {
  sockaddr_un name{};
  if (path.empty() || path.size() >= sizeof name.sun_path) return std::nullopt;
  name.sun_family = AF_UNIX;
  std::ranges::copy(path, name.sun_path);
  return name;
}

}  // namespace meshdns::dnsd
