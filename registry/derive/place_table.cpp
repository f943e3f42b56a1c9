// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/place_table.hpp"

namespace meshdns::registry {
namespace {

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
