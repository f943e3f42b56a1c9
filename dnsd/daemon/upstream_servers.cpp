#include "dnsd/daemon/upstream_servers.hpp"

#include "dnsd/config/resolv_conf.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

UpstreamConfig effective_upstream(const Config& config, std::span<const SocketAddress> listening,
                                  std::string* warning, const char* resolv_conf) {
  UpstreamConfig upstream = config.upstream;
  if (!upstream.servers.empty()) return upstream;
  const auto parsed = read_resolv_conf(resolv_conf);
  if (!parsed) {
    *warning = parsed.error().message;
    return upstream;
  }
  const auto others = exclude_own(parsed->nameservers, listening, local_addresses());
  for (const auto& address : others)
    upstream.servers.push_back({UpstreamTransport::Plain, address, ""});
  if (others.empty())
    *warning =
        parsed->nameservers.empty()
            ? std::string(resolv_conf) + " names no server: names outside the registry get SERVFAIL"
            : std::string(resolv_conf) +
                  " names only ourselves: names outside the registry get SERVFAIL";
  return upstream;
}

std::vector<std::string> plain_servers_for(const UpstreamConfig& upstream, std::string_view host) {
  const std::vector<UpstreamServer>* servers = &upstream.servers;
  for (std::string_view zone = host; !zone.empty(); zone = parent_of(zone))
    if (const auto it = upstream.zones.find(std::string(zone)); it != upstream.zones.end()) {
      servers = &it->second;
      break;
    }
  std::vector<std::string> plain;
  for (const auto& server : *servers)
    if (server.transport == UpstreamTransport::Plain) plain.push_back(server.address.to_string());
  return plain;
}

}  // namespace meshdns::dnsd
