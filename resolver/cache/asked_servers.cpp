// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/asked_servers.hpp"

#include <algorithm>

#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

std::vector<std::string> names_of(const std::vector<UpstreamServer>& servers) {
  std::vector<std::string> names;
  names.reserve(servers.size());
  for (const UpstreamServer& server : servers) names.push_back(server.to_string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

AskedServers::AskedServers(const UpstreamConfig& upstream)
    : is_known_(true), for_all_(names_of(upstream.servers)) {
  for (const auto& [zone, servers] : upstream.zones)
    zones_.emplace(wire::wire_from_host(zone), names_of(servers));
}

const AskedServers::Servers& AskedServers::servers_of(std::string_view wire_name) const {
  const Servers* const zone = find_zone(zones_, wire_name);
  return zone != nullptr ? *zone : for_all_;
}

bool AskedServers::has(std::string_view wire_name, std::string_view server) const {
  return !is_known_ || std::ranges::binary_search(servers_of(wire_name), server, std::less<>());
}

std::string_view AskedServers::any(std::string_view wire_name) const {
  const Servers& servers = servers_of(wire_name);
  return servers.empty() ? std::string_view() : std::string_view(servers.front());
}

}  // namespace meshdns::dnsd
