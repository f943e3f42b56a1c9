// SPDX-License-Identifier: Apache-2.0
// Selects the upstream servers: those of the configuration, or those of this machine without
// meshdns itself.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/links/link_dns.hpp"
#include "registry/base/socket_address.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// The files that name the servers of this machine, in this order: the usual file; the servers that
// systemd-resolved got from the network, for when the first names only its stub; those that
// NetworkManager got, and those that meshdns-resolver saved, for when the first names only meshdns.
inline constexpr std::array<const char*, 4> kResolvConfPaths = {
    "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf", "/var/lib/meshdns-resolver/upstream.conf"};
inline constexpr std::size_t kResolvConfOfResolved = 1;

// The resolver of this machine, without meshdns itself.
struct SystemResolver {
  UpstreamConfig upstream;
  std::vector<std::string> search;  // canonical
};

// `config.upstream` with its servers filled in: of the first of `resolv_confs` (in the order of
// kResolvConfPaths) that names others than ourselves and systemd-resolved's stub.  The stub is
// asked if nobody else is known, nor the servers that it asks: where it has none, it sends its
// questions back to us.  `listening`: the addresses really bound.  `warning` gets what an operator
// should know (no server left, say); empty = nothing.
UpstreamConfig effective_upstream(const Config& config, std::span<const SocketAddress> listening,
                                  std::string* warning,
                                  std::span<const char* const> resolv_confs = kResolvConfPaths);

// Adds the zones of this machine's links that `upstream` does not have, and takes their servers out
// of those for all other names, unless none would be left.
void add_link_routes(UpstreamConfig& upstream, const LinkRoutes& routes,
                     std::span<const SocketAddress> listening);

// The servers for one name (lower-case wire form) and the zone that they are configured for.
Forwarder::Route route_for(const UpstreamConfig& upstream, std::string_view wire_name);

}  // namespace meshdns::dnsd
