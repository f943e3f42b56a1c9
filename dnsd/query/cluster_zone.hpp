// SPDX-License-Identifier: Apache-2.0
// The cluster domain and the cluster set's zone where no object says more: the apex, the names
// above services, pod names (docs/semantics-kubernetes.md, "Names in the zone", "Pod names" and
// "The cluster set").
#pragma once

#include <optional>
#include <string_view>

#include "dnsd/query/decision.hpp"

namespace meshdns::dnsd {

// Whether the name is the cluster domain or below it.
bool is_in_cluster_domain(const registry::View& view, std::string_view name);

// Of the cluster domain and the cluster set's zone, the one that has the name and for which meshdns
// is authoritative; empty = none.
std::string_view authoritative_zone_of(const registry::View& view, std::string_view name);

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
