// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/sidecar_table.hpp"

#include <algorithm>

namespace meshdns::registry {

void SidecarTable::add(const SymbolRef& ns, const StoredRef& sidecar) {
  sidecars_[ns].push_back(sidecar);
}

void SidecarTable::remove(const SymbolRef& ns, const StoredRef& sidecar) {
  const auto it = sidecars_.find(ns);
  if (it == sidecars_.end()) return;
  std::erase(it->second, sidecar);
  if (it->second.empty()) sidecars_.erase(it);
}

// `client_labels`: null leaves out Sidecars with a selector.
StoredRef SidecarTable::choose(const SymbolRef& ns, const Labels* client_labels) const {
  const auto it = sidecars_.find(ns);
  if (it == sidecars_.end()) return {};
  StoredRef best;
  std::pair<Resource, bool> best_value;
  for (const auto& stored : it->second) {
    Resource resource = stored->decode();
    const auto& sidecar = std::get<Sidecar>(resource);
    const bool has_selector = sidecar.workload_selector.has_value();
    if (has_selector &&
        (client_labels == nullptr || !selects(*sidecar.workload_selector, *client_labels)))
      continue;
    // Those with a selector rank first, each group by age.
    if (!best || (has_selector && !best_value.second) ||
        (has_selector == best_value.second && is_older(sidecar.meta, meta_of(best_value.first)))) {
      best = stored;
      best_value = {std::move(resource), has_selector};
    }
  }
  return best;
}

StoredRef SidecarTable::find(const Labels& client_labels, const SymbolRef& ns,
                             const SymbolRef& root) const {
  StoredRef chosen = choose(ns, &client_labels);
  if (!chosen && ns != root) chosen = choose(root, nullptr);
  return chosen;
}

Ref<const SidecarScope> SidecarTable::scope_of(const StoredRef& stored, const SymbolRef& ns,
                                               SymbolTable& symbols) {
  const Resource resource = stored->decode();
  const auto& sidecar = std::get<Sidecar>(resource);
  const bool says_own = std::ranges::any_of(sidecar.egress, [](const EgressListener& listener) {
    return std::ranges::any_of(listener.hosts, [](const std::string& host) {
      return host.starts_with("./") || host.starts_with("~./");
    });
  });
  // A Sidecar without "." means the same to every namespace: all share one scope.
  auto& scope = scopes_[{stored.get(), says_own ? ns.get() : nullptr}];
  if (!scope) scope = SidecarScope::compile(sidecar, ns, symbols, stored);
  return scope;
}

void SidecarTable::sweep() {
  std::erase_if(scopes_, [](const auto& item) { return item.second->is_unique(); });
}

}  // namespace meshdns::registry
