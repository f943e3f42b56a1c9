// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_addresses.hpp"

#include <unordered_map>
#include <utility>

#include "registry/snapshot/address_set_builder.hpp"

namespace meshdns::registry {
namespace {

using Entries = std::vector<const EndpointEntry*>;

// The ready endpoints by network, in the order of their first appearance.
class NetworkTable {
 public:
  void add(const EndpointEntry& entry) {
    const auto [it, is_new] = positions_.try_emplace(entry.network.get(), networks_.size());
    if (is_new) networks_.emplace_back(entry.network, Entries());
    networks_[it->second].second.push_back(&entry);
  }
  const std::vector<std::pair<SymbolRef, Entries>>& networks() const { return networks_; }

 private:
  std::vector<std::pair<SymbolRef, Entries>> networks_;
  std::unordered_map<const Symbol*, std::size_t> positions_;
};

AddressSet set_of(const Entries& own, const Entries& others) {
  AddressSetBuilder builder;
  for (const EndpointEntry* entry : own) builder.add(entry->address, entry->weight);
  for (const EndpointEntry* entry : others) builder.add(entry->address, entry->weight);
  return builder.take();
}

}  // namespace

EndpointAddresses addresses_of(const EndpointList& endpoints) {
  EndpointAddresses result;
  Entries ready;
  Entries unnamed;  // reachable from every network
  NetworkTable table;
  for (const auto& entry : endpoints.entries) {
    if (!entry.ready) continue;
    ready.push_back(&entry);
    if (entry.network)
      table.add(entry);
    else
      unnamed.push_back(&entry);
  }
  result.all = set_of(ready, {});
  if (table.networks().empty()) return result;
  std::size_t copies = 0;
  for (const auto& [network, own] : table.networks()) {
    copies += unnamed.size();
    if (copies > EndpointAddresses::kMaxCopies)
      ++result.networks_left_out;
    else
      result.by_network.push_back({network, nullptr, set_of(own, unnamed)});
  }
  // Clients of a network without endpoints of its own.
  result.by_network.push_back({nullptr, nullptr, set_of(unnamed, {})});
  return result;
}

}  // namespace meshdns::registry
