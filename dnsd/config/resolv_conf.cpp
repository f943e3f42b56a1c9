// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/resolv_conf.hpp"

#include <ifaddrs.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "dnsd/config/values.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kMaxNdots = 15;    // RES_MAXNDOTS
constexpr std::uint64_t kMaxTimeout = 30;  // RES_MAXRETRANS

void read_nameserver(std::string_view line, ResolvConf& out) {
  const auto server = parse_socket_address(take_word(line), 53);
  if (!server || server->port != 53 || out.nameservers.size() >= kMaxNameservers) return;
  if (std::ranges::find(out.nameservers, *server) != out.nameservers.end()) return;
  out.nameservers.push_back(*server);
}

void read_search(std::string_view line, ResolvConf& out) {
  out.search.clear();
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
    const auto domain = parse_domain(word);
    if (domain && out.search.size() < kMaxSearchDomains) out.search.push_back(*domain);
  }
}

std::optional<std::uint64_t> option_value(std::string_view option, std::string_view name) {
  if (!option.starts_with(name)) return std::nullopt;
  const auto value = parse_unsigned(option.substr(name.size()));
  return value ? std::optional(*value) : std::nullopt;
}

void read_options(std::string_view line, ResolvConf& out) {
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
    if (const auto ndots = option_value(word, "ndots:"))
      out.ndots = static_cast<std::uint32_t>(std::min(*ndots, kMaxNdots));
    if (const auto timeout = option_value(word, "timeout:"); timeout && *timeout > 0)
      out.timeout = std::chrono::seconds(std::min(*timeout, kMaxTimeout));
  }
}

void read_line(std::string_view line, ResolvConf& out) {
  const std::string_view keyword = take_word(line);
  if (keyword == "nameserver") read_nameserver(line, out);
  if (keyword == "search" || keyword == "domain") read_search(line, out);
  if (keyword == "options") read_options(line, out);
}

bool is_local(const IpAddress& ip, std::span<const IpAddress> local_addresses) {
  return ip.is_loopback() || ip.is_unspecified() ||
         std::ranges::find(local_addresses, ip) != local_addresses.end();
}

// The IPv4 wildcard receives IPv4 only; "[::]" is dual stack.
bool hears(const SocketAddress& listener, const SocketAddress& server,
           std::span<const IpAddress> local_addresses) {
  if (listener.port != server.port) return false;
  if (listener.ip == server.ip)
    return listener.zone.empty() || server.zone.empty() || listener.zone == server.zone;
  if (!listener.ip.is_unspecified() || !is_local(server.ip, local_addresses)) return false;
  return listener.ip.is_v6() || server.ip.is_v4();
}

}  // namespace

ResolvConf parse_resolv_conf(std::string_view text) {
  ResolvConf result;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!line.starts_with('#') && !line.starts_with(';')) read_line(line, result);
  }
  return result;
}

Result<ResolvConf> read_resolv_conf(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return std::unexpected(text.error());
  return parse_resolv_conf(*text);
}

std::vector<SocketAddress> exclude_own(std::span<const SocketAddress> servers,
                                       std::span<const SocketAddress> listen,
                                       std::span<const IpAddress> local_addresses) {
  std::vector<SocketAddress> others;
  for (const SocketAddress& server : servers) {
    const bool own = std::ranges::any_of(
        listen, [&](const auto& listener) { return hears(listener, server, local_addresses); });
    if (!own) others.push_back(server);
  }
  return others;
}

std::vector<IpAddress> local_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<IpAddress> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (const auto ip = IpAddress::from_sockaddr(i->ifa_addr)) addresses.push_back(*ip);
  }
  return addresses;
}

}  // namespace meshdns::dnsd
