// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/client_settings.hpp"

#include <algorithm>

#include "dnsd/mesh/configured_sources.hpp"

namespace meshdns::dnsd {

registry::ClientSettings client_settings(const Config& whole) {
  const ClientConfig& config = whole.client;
  const ClientIdentityConfig& from = config.default_identity;
  registry::ClientSettings settings;
  settings.by_source_address = config.by_source_address;
  settings.workload_entry_namespaces = config.workload_entry_namespaces;
  settings.node_search = config.node_search;
  settings.unknown = config.unknown;
  const auto has = [&](IpFamily family) {
    return std::ranges::find(from.ip_families, family) != from.ip_families.end();
  };
  auto& identity = settings.default_identity;
  identity.ns = from.ns;
  identity.labels = from.labels;
  identity.network = from.network;
  identity.cluster = from.cluster;
  identity.node = from.node.empty() ? own_node(whole) : from.node;
  identity.locality = from.locality;
  identity.search = from.search;
  identity.ipv4 = has(IpFamily::IPv4);
  identity.ipv6 = has(IpFamily::IPv6);
  if (!from.node_id) return settings;
  identity.narrowed_by_sidecars = from.node_id->type == "sidecar";
  if (!identity.search.empty()) return settings;
  identity.search = from.node_id->search();
  if (!identity.search.empty())
    identity.search.insert(identity.search.end(), config.node_search.begin(),
                           config.node_search.end());
  return settings;
}

}  // namespace meshdns::dnsd
