// SPDX-License-Identifier: Apache-2.0
// The cluster domain where no object says more: its apex, the names above services, pod names
// (docs/semantics-kubernetes.md, "Names in the zone" and "Pod names").
#pragma once

#include <optional>
#include <string_view>

#include "dnsd/query/decision.hpp"

namespace meshdns::dnsd {

// Whether the name is the cluster domain or below it.
bool is_in_cluster_domain(const registry::View& view, std::string_view name);

// Names that exist whatever the registry holds, and before it holds anything: the apex, svc, pod,
// dns, ns.dns, dns-version.  nullopt for all others.  REQUIRES: is_in_cluster_domain(asked.name).
std::optional<Decision> decide_fixed_name(const registry::View& view, const Asked& asked);

// Namespaces, pod names, and whatever lies above a known host; NxDomain for the rest.
// REQUIRES: is_in_cluster_domain(asked.name), and decide_fixed_name() gave nothing.
Decision decide_cluster_name(const registry::View& view, const Asked& asked);

}  // namespace meshdns::dnsd
