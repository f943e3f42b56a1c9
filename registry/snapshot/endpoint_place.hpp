// SPDX-License-Identifier: Apache-2.0
// The places of endpoints and clients, and how near one is to the other.
// Immutable and for any thread, but for PlaceTable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/base/ref.hpp"
#include "registry/model/labels.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// The place of a client.  Null parts are unknown.
struct Place {
  SymbolRef node;
  SymbolRef region;
  SymbolRef zone;
  SymbolRef subzone;
  bool is_known() const { return node || region || zone || subzone; }
};

// Null parts for empty ones.
Place place_of(const Locality& locality, const std::string& node, SymbolTable& symbols);

struct EndpointPlace final : RefCounted {
  Place place;
  // EndpointSlice hints.
  std::vector<SymbolRef> hinted_zones;
  std::vector<SymbolRef> hinted_nodes;
};

// The nearest first.
enum class Nearness : std::uint8_t { SameNode, SameSubzone, SameZone, SameRegion, Elsewhere };
inline constexpr std::size_t kNearnesses = 5;
std::string_view to_string(Nearness nearness);  // "same zone"

// How the endpoints of one service are told apart.
struct NearRule {
  TrafficDistribution distribution = TrafficDistribution::Any;
  // Every ready endpoint has such hints: they decide instead of the endpoints' own places.
  bool by_hinted_zones = false;
  bool by_hinted_nodes = false;

  bool is_active() const {
    return by_hinted_zones || distribution == TrafficDistribution::SameZone ||
           distribution == TrafficDistribution::SameNode;
  }
  // `endpoint`: null = its place is unknown.
  Nearness nearness(const EndpointPlace* endpoint, const Place& client) const;
  friend bool operator==(const NearRule&, const NearRule&) = default;
};

// The places of the addresses of one AddressSet.
struct AddressPlaces final : RefCounted {
  // Addresses of one family: those beyond make no difference between near and far, since each query
  // goes through them.
  static constexpr std::size_t kMaxAddresses = 4'096;

  NearRule rule;
  std::vector<Ref<const EndpointPlace>> places;  // each once; the first is null: unknown
  std::vector<std::uint16_t> v4;                 // in `places`, one for each address
  std::vector<std::uint16_t> v6;
};

// The places of the endpoints that one commit derives, each stored once: lists that are alike stay
// alike.
// Control thread.
class PlaceTable {
 public:
  // Null: nothing of it is known.
  Ref<const EndpointPlace> place(const Locality& locality, const std::string& node,
                                 const std::vector<std::string>& hinted_zones,
                                 const std::vector<std::string>& hinted_nodes,
                                 SymbolTable& symbols);

 private:
  TextMap<Ref<const EndpointPlace>> places_;
};

}  // namespace meshdns::registry
