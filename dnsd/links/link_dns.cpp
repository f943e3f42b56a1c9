// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/link_dns.hpp"

#include <algorithm>

#include "dnsd/config/values.hpp"

namespace meshdns::dnsd {
namespace {

void add_once(std::vector<SocketAddress>& servers, const SocketAddress& server) {
  if (servers.size() < kMaxLinkServers && std::ranges::find(servers, server) == servers.end())
    servers.push_back(server);
}

}  // namespace

void LinkDns::add_server(const SocketAddress& server) {
  if (server.port != 0 && !server.ip.is_unspecified()) add_once(servers, server);
}

void LinkDns::add_domain(std::string_view domain, bool route_only) {
  if (domain == "." || domain.empty()) {
    is_default_route = true;
    return;
  }
  const auto canonical = parse_domain(domain);
  if (!canonical || domains.size() >= kMaxLinkDomains) return;
  if (!route_only && canonical->find('.') == std::string::npos) return;
  domains.push_back(*canonical);
}

LinkRoutes routes_of(const std::vector<LinkDns>& links) {
  LinkRoutes routes;
  std::vector<SocketAddress> for_all;
  for (const LinkDns& link : links) {
    for (const SocketAddress& server : link.servers) {
      for (const std::string& domain : link.domains) add_once(routes.zones[domain], server);
      add_once(link.is_default_route ? for_all : routes.only_for_zones, server);
    }
  }
  std::erase_if(routes.only_for_zones, [&](const SocketAddress& server) {
    return std::ranges::find(for_all, server) != for_all.end();
  });
  return routes;
}

}  // namespace meshdns::dnsd
