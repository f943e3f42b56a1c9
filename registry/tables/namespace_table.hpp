// SPDX-License-Identifier: Apache-2.0
// The objects that other objects name: Nodes and Namespaces.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "registry/model/labels.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

// The localities of Nodes.
//
// Control thread.
class NodeTable {
 public:
  // Cluster and name.
  using Key = std::pair<std::string, std::string>;

  void put(const KubeNode& node);
  void erase(const KubeNode& node);
  // The locality of the Node `name` of a cluster, or of the sources without a cluster; empty:
  // unknown.
  Locality locality_of(std::string_view cluster, std::string_view name) const;
  // The nodes whose locality has changed since the last call.
  std::set<Key> take_changes() { return std::exchange(changes_, {}); }

 private:
  std::map<Key, Locality> nodes_;
  std::set<Key> changes_;
};

// The Namespace objects, for rules with a namespaceSelector and for settings of their services.
//
// Control thread; any thread may read the published data.
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
