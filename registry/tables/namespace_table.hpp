// SPDX-License-Identifier: Apache-2.0
// The Namespace objects, for rules with a namespaceSelector and for settings of their services.
//
// Control thread; any thread may read the published data.
#pragma once

#include <string_view>

#include "registry/model/resources.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

class NamespaceTable {
 public:
  // `name`: of the object.
  void put(const SymbolRef& name, const Namespace& object);
  void erase(const SymbolRef& name);
  // Null: there is no such object.
  const Labels* labels_of(std::string_view name) const;
  // Unset: there is no such object, or it has no setting.
  TrafficDistribution distribution_of(std::string_view name) const;
  void publish_to(Snapshot& snapshot) const { snapshot.namespaces = entries_; }

 private:
  const NamespaceEntry* find(std::string_view name) const;

  HashTrie<NamespaceEntry> entries_;
};

}  // namespace meshdns::registry
