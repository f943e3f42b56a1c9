// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/namespace_table.hpp"

namespace meshdns::registry {

void NamespaceTable::put(const SymbolRef& name, const Namespace& object) {
  auto* entry = new NamespaceEntry;
  const Ref<const NamespaceEntry> replacement(entry);
  entry->name = name;
  entry->labels = object.meta.labels;
  entry->traffic_distribution = object.traffic_distribution;
  entries_.put(hash_bytes(name->text()), replacement,
               [&](const NamespaceEntry& e) { return e.name == name; });
}

void NamespaceTable::erase(const SymbolRef& name) {
  entries_.erase(hash_bytes(name->text()), [&](const NamespaceEntry& e) { return e.name == name; });
}

const NamespaceEntry* NamespaceTable::find(std::string_view name) const {
  return entries_.find(hash_bytes(name),
                       [&](const NamespaceEntry& e) { return e.name->text() == name; });
}

const Labels* NamespaceTable::labels_of(std::string_view name) const {
  const NamespaceEntry* const entry = find(name);
  return entry == nullptr ? nullptr : &entry->labels;
}

TrafficDistribution NamespaceTable::distribution_of(std::string_view name) const {
  const NamespaceEntry* const entry = find(name);
  return entry == nullptr ? TrafficDistribution::Unset : entry->traffic_distribution;
}

}  // namespace meshdns::registry
