// Which servers are asked: the configuration's, or those of this machine without ourselves.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/config/socket_address.hpp"
#include "dnsd/forward/forwarder.hpp"

namespace meshdns::dnsd {

// Where this machine's servers are looked for, in this order: the usual place; what
// systemd-resolved has from the network, where the first names only its stub; what
// meshdns-resolver(8) has put aside, where the first names only us.
inline constexpr std::array<const char*, 3> kResolvConfPaths = {
    "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf",
    "/var/lib/meshdns-resolver/upstream.conf"};

// `config.upstream` with its servers filled in: of the first of `resolv_confs` that names others
// than ourselves and systemd-resolved's stub, which may send its questions back to us; failing
// that, the stub.  `listening`: the addresses really bound.  `warning` gets what an operator should
// know (no server left, say); empty = nothing.
UpstreamConfig effective_upstream(const Config& config, std::span<const SocketAddress> listening,
                                  std::string* warning,
                                  std::span<const char* const> resolv_confs = kResolvConfPaths);

// The servers for one name (lower-case wire form) and the zone that they are configured for.
Forwarder::Route route_for(const UpstreamConfig& upstream, std::string_view wire_name);

// The servers for one canonical host, longest zone first, as "ip:port"; DNS over TLS is left out.
std::vector<std::string> plain_servers_for(const UpstreamConfig& upstream, std::string_view host);

}  // namespace meshdns::dnsd
