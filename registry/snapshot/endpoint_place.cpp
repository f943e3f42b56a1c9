// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_place.hpp"

#include <algorithm>

namespace meshdns::registry {
namespace {

bool has(const std::vector<SymbolRef>& symbols, const SymbolRef& symbol) {
  return symbol && std::ranges::find(symbols, symbol) != symbols.end();
}

// Zones of two known regions are two zones even if they are called alike.
bool is_same_zone(const Place& a, const Place& b) {
  return a.zone && a.zone == b.zone && (!a.region || !b.region || a.region == b.region);
}

}  // namespace

std::string_view to_string(Nearness nearness) {
  switch (nearness) {
    case Nearness::SameNode:
      return "same node";
    case Nearness::SameSubzone:
      return "same subzone";
    case Nearness::SameZone:
      return "same zone";
    case Nearness::SameRegion:
      return "same region";
    case Nearness::Elsewhere:
      return "elsewhere";
  }
  return "";
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

}  // namespace meshdns::registry
