// SPDX-License-Identifier: Apache-2.0
// The cluster domain and the cluster set's zone where no object says more: the apex, the names
// above services, pod names (docs/semantics-kubernetes.md, "Names in the zone", "Pod names" and
// "The cluster set").
#pragma once

#include <optional>
#include <string_view>

#include "dnsd/answer/decision.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

// Returns whether the name is the cluster domain or below it.
inline bool is_in_cluster_domain(const registry::View& view, std::string_view name) {
  return is_at_or_below(name, view.settings().cluster_domain);
}

// Returns whether the name is the cluster set's zone or below it, and meshdns is authoritative for
// that.
inline bool is_in_own_cluster_set(const registry::View& view, std::string_view name) {
  return view.settings().cluster_set_authoritative &&
         is_at_or_below(name, registry::kClusterSetDomain);
}

// Returns the cluster domain or the cluster set's zone if it has the name and meshdns is
// authoritative for it; else empty.
inline std::string_view authoritative_zone_of(const registry::View& view, std::string_view name) {
  if (view.snapshot().sources.authoritative && is_in_cluster_domain(view, name))
    return view.settings().cluster_domain;
  return is_in_own_cluster_set(view, name) ? registry::kClusterSetDomain : std::string_view();
}

// Names of either zone that exist whatever the registry holds, and before it holds anything: the
// apex, svc, pod, dns, ns.dns, dns-version.  nullopt for all others.  REQUIRES: asked.name is the
// zone or below it.
std::optional<Decision> decide_fixed_name(std::string_view zone, const Asked& asked);

// Namespaces, pod names, and whatever lies above a known host; NxDomain for the rest.
// REQUIRES: is_in_cluster_domain(asked.name), and decide_fixed_name() gave nothing.
Decision decide_cluster_name(const registry::View& view, const Asked& asked);

// Namespaces; NxDomain for the rest (docs/semantics-kubernetes.md, "The cluster set").
// REQUIRES: a name of the cluster set's zone, and decide_fixed_name() gave nothing.
Decision decide_cluster_set_name(const registry::View& view, const Asked& asked);

}  // namespace meshdns::dnsd
