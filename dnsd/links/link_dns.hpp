// SPDX-License-Identifier: Apache-2.0
// The DNS settings of a network link (an Ethernet device, a VPN), as systemd-resolved or
// NetworkManager have them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

// A VPN client announces some of each.  More than this is not read.
inline constexpr std::size_t kMaxLinks = 64;
inline constexpr std::size_t kMaxLinkServers = 16;
inline constexpr std::size_t kMaxLinkDomains = 64;

struct LinkDns {
  // A name with an interface, if it is an IPv6 link-local address.
  std::vector<SocketAddress> servers;
  std::vector<std::string> domains;  // canonical
  // The servers may be asked for names outside of `domains`, too.
  bool is_default_route = true;

  // Both skip what is invalid or too much.
  void add_server(const SocketAddress& server);
  // `domain`: with or without the dot at the end.  The root makes the link a default route.  A
  // search domain with one label, such as "com", does not count, because any network may announce
  // it; a `route_only` one does.
  void add_domain(std::string_view domain, bool route_only);
};

struct LinkRoutes {
  // Canonical zone to the servers of the links that have it.
  std::map<std::string, std::vector<SocketAddress>> zones;
  // Servers that are for these zones only.
  std::vector<SocketAddress> only_for_zones;
  friend bool operator==(const LinkRoutes&, const LinkRoutes&) = default;
};

LinkRoutes routes_of(const std::vector<LinkDns>& links);

}  // namespace meshdns::dnsd
