// SPDX-License-Identifier: Apache-2.0
// The Sidecars of each namespace, and the scopes that they give to clients.
//
// Control thread.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/snapshot/client.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

class SidecarTable {
 public:
  void add(const SymbolRef& ns, const StoredRef& sidecar);
  void remove(const SymbolRef& ns, const StoredRef& sidecar);

  // The Sidecar that applies to a client of `ns`: of its namespace, those with a matching
  // workloadSelector before those without one, each group by age; else one without a selector of
  // `root`, the root namespace.  Null: none applies.
  StoredRef find(const Labels& client_labels, const SymbolRef& ns, const SymbolRef& root) const;

  // The compiled form of `sidecar` for clients of `ns`; clients with equal forms share one
  // object.
  Ref<const SidecarScope> scope_of(const StoredRef& sidecar, const SymbolRef& ns,
                                   SymbolTable& symbols);
  // Removes scopes without clients.
  void sweep();
  // Number of scopes.
  std::size_t scopes() const { return scopes_.size(); }

 private:
  StoredRef choose(const SymbolRef& ns, const Labels* client_labels) const;

  std::unordered_map<SymbolRef, std::vector<StoredRef>, SymbolHash> sidecars_;
  // By Sidecar and, if it has ".", the namespace of the client.
  std::map<std::pair<const StoredResource*, const Symbol*>, Ref<const SidecarScope>> scopes_;
};

}  // namespace meshdns::registry
