// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/upstream_servers.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "dnsd/config/resolv_conf.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {

namespace {

// Returns whether `server` is a stub listener of systemd-resolved (resolved.conf(5),
// DNSStubListener=).
bool is_resolved_stub(const SocketAddress& server) {
  static const auto kStubs = {*IpAddress::parse("127.0.0.53"), *IpAddress::parse("127.0.0.54")};
  return std::ranges::find(kStubs, server.ip) != kStubs.end();
}

void ask(UpstreamConfig& upstream, const std::vector<SocketAddress>& servers) {
  for (const auto& address : servers)
    upstream.servers.push_back({UpstreamTransport::Plain, address, ""});
}

// The longest zone of the configuration that `host` is at or below; null: none.
const decltype(UpstreamConfig::zones)::value_type* zone_for(const UpstreamConfig& upstream,
                                                            std::string_view host) {
  for (std::string_view zone = host; !zone.empty(); zone = parent_of(zone))
    if (const auto it = upstream.zones.find(std::string(zone)); it != upstream.zones.end())
      return &*it;
  const auto root = upstream.zones.find("");
  return root == upstream.zones.end() ? nullptr : &*root;
}

}  // namespace

UpstreamConfig effective_upstream(const Config& config, std::span<const SocketAddress> listening,
                                  std::string* warning, std::span<const char* const> resolv_confs) {
  UpstreamConfig upstream = config.upstream;
  upstream.nat64 = config.dns64.prefix;
  if (!upstream.servers.empty()) return upstream;
  const auto own = local_addresses();
  std::vector<SocketAddress> stubs;
  std::string complaint;
  bool is_resolved_known = false;
  for (std::size_t i = 0; i < resolv_confs.size(); ++i) {
    const char* const path = resolv_confs[i];
    const auto parsed = read_resolv_conf(path);
    if (!parsed) {
      if (complaint.empty()) complaint = parsed.error().message;
      continue;
    }
    auto others = exclude_own(parsed->nameservers, listening, own);
    const auto stub = std::ranges::stable_partition(others, std::not_fn(is_resolved_stub));
    stubs.insert(stubs.end(), stub.begin(), stub.end());
    others.erase(stub.begin(), others.end());
    ask(upstream, others);
    if (!upstream.servers.empty()) {
      upstream.servers_file = path;
      return upstream;
    }
    if (i == kResolvConfOfResolved) is_resolved_known = true;
    if (complaint.empty() || (i == kResolvConfOfResolved && !stubs.empty()))
      complaint = std::string(path) +
                  (parsed->nameservers.empty() ? " names no server" : " names only this server") +
                  ": names outside the registry get SERVFAIL";
  }
  if (!is_resolved_known) ask(upstream, stubs);
  if (!upstream.servers.empty()) upstream.servers_file = resolv_confs.front();
  if (upstream.servers.empty()) *warning = complaint;
  return upstream;
}

void add_link_routes(UpstreamConfig& upstream, const LinkRoutes& routes,
                     std::span<const SocketAddress> listening) {
  const auto own = local_addresses();
  for (const auto& [zone, servers] : routes.zones) {
    const auto others = exclude_own(servers, listening, own);
    if (others.empty() || upstream.zones.contains(zone)) continue;
    for (const auto& address : others)
      upstream.zones[zone].push_back({UpstreamTransport::Plain, address, ""});
    upstream.link_zones.insert(zone);
  }
  auto for_all = upstream.servers;
  std::erase_if(for_all, [&](const UpstreamServer& server) {
    return std::ranges::find(routes.only_for_zones, server.address) != routes.only_for_zones.end();
  });
  if (!for_all.empty()) upstream.servers = std::move(for_all);
}

Forwarder::Route route_for(const UpstreamConfig& upstream, std::string_view wire_name) {
  std::string host;
  wire::host_from_wire(wire_name, host);
  const auto* const zone = zone_for(upstream, host);
  Forwarder::Route route;
  if (zone != nullptr) route.zone = zone->first;
  route.is_of_link = upstream.link_zones.contains(route.zone);
  for (const auto& server : zone != nullptr ? zone->second : upstream.servers)
    route.servers.push_back(server.to_string());
  return route;
}

}  // namespace meshdns::dnsd
