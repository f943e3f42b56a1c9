// SPDX-License-Identifier: Apache-2.0
// Which collections are to be followed: no more than what the answers need, because every node of a
// cluster asks the same API server.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/source/kubernetes/discovery.hpp"
#include "registry/source/kubernetes/reflector.hpp"

namespace meshdns::registry::kubernetes {

// What the answers need beside names and their own addresses.
struct WatchNeeds {
  std::vector<std::string> namespaces;  // only these; empty = all
  std::string root_namespace = "istio-system";
  std::string node_name;                // empty = not known: then the Pods of every node
  bool client_pods = false;             // Pods of this node tell who asks
  bool all_pods = false;                // verified pod names
  bool all_slices = false;              // a Service without ready endpoints is to be hidden
  std::set<std::string> selected_pods;  // namespaces whose Pods are ServiceEntries' endpoints
  friend bool operator==(const WatchNeeds&, const WatchNeeds&) = default;
};

struct PlannedCollection {
  std::string label;     // "endpointslices[headless]@shop": unique, and the same after a restart
  std::string resource;  // "endpointslices.discovery.k8s.io", as RBAC names it
  Kind kind = Kind::Service;
  Collection collection;
  // Nothing can be answered without it; the others may be forbidden.
  bool is_required = false;
};

std::vector<PlannedCollection> plan_watches(const WatchNeeds& needs, const ServedKinds& served);

// The CRDs themselves, so that a kind is followed from the moment that it exists.
Collection crd_collection();
// Whether a CRD of that name ("sidecars.networking.istio.io") is of a kind that we read.
bool is_crd_of_interest(std::string_view name);

}  // namespace meshdns::registry::kubernetes
