// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_addresses.hpp"

#include <algorithm>
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

// The places of a set's addresses, in the order in which they are added.
class PlaceList {
 public:
  explicit PlaceList(const NearRule& rule) {
    places_->rule = rule;
    places_->places.emplace_back();
  }
  void add(const EndpointEntry& entry) {
    const auto [it, is_new] = positions_.try_emplace(
        entry.place.get(), static_cast<std::uint16_t>(places_->places.size()));
    if (is_new) places_->places.push_back(entry.place);
    (entry.address.is_v4() ? places_->v4 : places_->v6).push_back(it->second);
  }
  // Null: too many addresses, or nothing to tell them apart.
  Ref<const AddressPlaces> take() {
    const bool is_too_long =
        std::max(places_->v4.size(), places_->v6.size()) > AddressPlaces::kMaxAddresses;
    return is_too_long || places_->places.size() == 1 ? Ref<const AddressPlaces>() : places_;
  }

 private:
  Ref<AddressPlaces> places_{new AddressPlaces};
  std::unordered_map<const EndpointPlace*, std::uint16_t> positions_{{nullptr, 0}};
};

AddressSet set_of(const Entries& own, const Entries& others, const NearRule& rule) {
  AddressSetBuilder builder;
  PlaceList places(rule);
  const bool has_places = rule.is_active();
  for (const Entries* entries : {&own, &others})
    for (const EndpointEntry* entry : *entries)
      if (builder.add(entry->address, entry->weight) && has_places) places.add(*entry);
  AddressSet set = builder.take();
  if (has_places) set.places = places.take();
  return set;
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
  result.all = set_of(ready, {}, endpoints.near);
  if (table.networks().empty()) return result;
  std::size_t copies = 0;
  for (const auto& [network, own] : table.networks()) {
    copies += unnamed.size();
    if (copies > EndpointAddresses::kMaxCopies)
      ++result.networks_left_out;
    else
      result.by_network.push_back({network, nullptr, set_of(own, unnamed, endpoints.near)});
  }
  // Clients of a network without endpoints of its own.
  result.by_network.push_back({nullptr, nullptr, set_of(unnamed, {}, endpoints.near)});
  return result;
}

}  // namespace meshdns::registry
