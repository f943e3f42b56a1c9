// SPDX-License-Identifier: Apache-2.0
// The places of the endpoints that one commit derives, each stored once: lists that are alike stay
// alike.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/locality.hpp"
#include "registry/snapshot/endpoint_place.hpp"

namespace meshdns::registry {

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

// Null parts for empty ones.
Place place_of(const Locality& locality, const std::string& node, SymbolTable& symbols);

}  // namespace meshdns::registry
