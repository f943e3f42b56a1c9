// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_addresses.hpp"

#include <algorithm>
#include <utility>

#include "registry/snapshot/address_set_builder.hpp"

namespace meshdns::registry {
namespace {

using Builders = std::vector<std::pair<SymbolRef, AddressSetBuilder>>;

AddressSetBuilder& builder_for(Builders& list, const SymbolRef& network) {
  for (auto& [symbol, builder] : list)
    if (symbol == network) return builder;
  return list.emplace_back(network, AddressSetBuilder()).second;
}

}  // namespace

EndpointAddresses addresses_of(const EndpointList& endpoints) {
  EndpointAddresses result;
  AddressSetBuilder all;
  AddressSetBuilder unnamed;
  Builders by_network;
  for (const auto& entry : endpoints.entries) {
    if (!entry.ready) continue;
    all.add(entry.address, entry.weight);
    if (entry.network) builder_for(by_network, entry.network).add(entry.address, entry.weight);
  }
  result.all = all.take();
  if (by_network.empty()) return result;
  for (const auto& entry : endpoints.entries) {
    // An endpoint without a network is reachable from every one.
    if (!entry.ready || entry.network) continue;
    unnamed.add(entry.address, entry.weight);
    for (auto& [network, builder] : by_network) builder.add(entry.address, entry.weight);
  }
  for (auto& [network, builder] : by_network)
    result.by_network.push_back({network, nullptr, builder.take()});
  // Clients of a network without endpoints of its own.
  result.by_network.push_back({nullptr, nullptr, unnamed.take()});
  return result;
}

}  // namespace meshdns::registry
