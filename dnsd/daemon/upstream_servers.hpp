// Which servers are asked: the configuration's, or those of /etc/resolv.conf without ourselves.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/config/socket_address.hpp"

namespace meshdns::dnsd {

inline constexpr const char* kResolvConfPath = "/etc/resolv.conf";

// `config.upstream` with its servers filled in.  `listening`: the addresses really bound.
// `warning` gets what an operator should know (no server left, say); empty = nothing.
UpstreamConfig effective_upstream(const Config& config, std::span<const SocketAddress> listening,
                                  std::string* warning, const char* resolv_conf = kResolvConfPath);

// The servers for one canonical host, longest zone first, as "ip:port"; DNS over TLS is left out.
std::vector<std::string> plain_servers_for(const UpstreamConfig& upstream, std::string_view host);

}  // namespace meshdns::dnsd
