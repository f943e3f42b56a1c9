// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/namespace_table.hpp"

namespace meshdns::registry {

void NamespaceTable::put(const SymbolRef& name, const Namespace& object) {
  auto* entry = new NamespaceEntry;
  const Ref<const NamespaceEntry> replacement(entry);
  entry->name = name;
  entry->labels = object.meta.labels;
  entries_.put(hash_bytes(name->text()), replacement,
               [&](const NamespaceEntry& e) { return e.name == name; });
}

void NamespaceTable::erase(const SymbolRef& name) {
  entries_.erase(hash_bytes(name->text()), [&](const NamespaceEntry& e) { return e.name == name; });
}

const Labels* NamespaceTable::labels_of(std::string_view name) const {
  const NamespaceEntry* entry = entries_.find(
      hash_bytes(name), [&](const NamespaceEntry& e) { return e.name->text() == name; });
  return entry == nullptr ? nullptr : &entry->labels;
}

}  // namespace meshdns::registry
