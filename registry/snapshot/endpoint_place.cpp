// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_place.hpp"

#include <algorithm>

#include "registry/base/enum_text.hpp"

namespace meshdns::registry {
namespace {

bool has(const std::vector<SymbolRef>& symbols, const SymbolRef& symbol) {
  return symbol && std::ranges::find(symbols, symbol) != symbols.end();
}

// Zones of two known regions are two zones even if they are called alike.
bool is_same_zone(const Place& a, const Place& b) {
  return a.zone && a.zone == b.zone && (!a.region || !b.region || a.region == b.region);
}

void add_words(const std::vector<std::string>& words, std::string& key) {
  for (const std::string& word : words) key.append(word).push_back('\0');
  key.push_back('\0');
}

std::vector<SymbolRef> symbols_of(const std::vector<std::string>& words, SymbolTable& symbols) {
  std::vector<SymbolRef> found;
  for (const std::string& word : words) found.push_back(symbols.intern(word));
  return found;
}

}  // namespace

std::string_view to_string(Nearness nearness) {
  return enum_text<Nearness::Elsewhere>(
      nearness, {"same node", "same subzone", "same zone", "same region", "elsewhere"});
}

Nearness NearRule::nearness(const EndpointPlace* endpoint, const Place& client) const {
  if (endpoint == nullptr) return Nearness::Elsewhere;
  const Place& place = endpoint->place;
  if (distribution == TrafficDistribution::SameNode) {
    const bool is_same = by_hinted_nodes ? has(endpoint->hinted_nodes, client.node)
                                         : place.node && place.node == client.node;
    if (is_same) return Nearness::SameNode;
  }
  if (by_hinted_zones)
    return has(endpoint->hinted_zones, client.zone) ? Nearness::SameZone : Nearness::Elsewhere;
  if (is_same_zone(place, client))
    return place.subzone && place.subzone == client.subzone ? Nearness::SameSubzone
                                                            : Nearness::SameZone;
  if (place.region && place.region == client.region) return Nearness::SameRegion;
  return Nearness::Elsewhere;
}

Place place_of(const Locality& locality, const std::string& node, SymbolTable& symbols) {
  const auto intern = [&](const std::string& text) {
    return text.empty() ? SymbolRef() : symbols.intern(text);
  };
  return {intern(node), intern(locality.region), intern(locality.zone), intern(locality.subzone)};
}

Ref<const EndpointPlace> PlaceTable::place(const Locality& locality, const std::string& node,
                                           const std::vector<std::string>& hinted_zones,
                                           const std::vector<std::string>& hinted_nodes,
                                           SymbolTable& symbols) {
  if (locality.empty() && node.empty() && hinted_zones.empty() && hinted_nodes.empty()) return {};
  std::string key;
  add_words({node, locality.region, locality.zone, locality.subzone}, key);
  add_words(hinted_zones, key);
  add_words(hinted_nodes, key);
  Ref<const EndpointPlace>& kept = places_[std::move(key)];
  if (!kept) {
    auto* place = new EndpointPlace;
    kept = Ref<const EndpointPlace>(place);
    place->place = place_of(locality, node, symbols);
    place->hinted_zones = symbols_of(hinted_zones, symbols);
    place->hinted_nodes = symbols_of(hinted_nodes, symbols);
  }
  return kept;
}

}  // namespace meshdns::registry
