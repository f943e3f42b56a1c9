// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/namespace_table.hpp"

namespace meshdns::registry {

void NodeTable::put(const KubeNode& node) {
  Key key{node.meta.cluster, node.meta.name};
  Locality locality = locality_of_node(node.meta.labels);
  const auto [it, is_new] = nodes_.try_emplace(key);
  if (it->second == locality) return;
  it->second = std::move(locality);
  changes_.insert(std::move(key));
}

void NodeTable::erase(const KubeNode& node) {
  const auto found = nodes_.find({node.meta.cluster, node.meta.name});
  if (found == nodes_.end()) return;
  if (!found->second.empty()) changes_.insert(found->first);
  nodes_.erase(found);
}

Locality NodeTable::locality_of(std::string_view cluster, std::string_view name) const {
  if (name.empty()) return {};
  auto found = nodes_.find({std::string(cluster), std::string(name)});
  if (found == nodes_.end() && !cluster.empty()) found = nodes_.find({{}, std::string(name)});
  return found == nodes_.end() ? Locality() : found->second;
}

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
