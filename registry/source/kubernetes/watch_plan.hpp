// SPDX-License-Identifier: Apache-2.0
// Selects the collections to follow: no more than the answers need, because every node of a cluster
// asks the same API server.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/source/kubernetes/discovery.hpp"
#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/kubernetes/slice_search.hpp"

namespace meshdns::registry::kubernetes {

// The data that answers need beside names and their own addresses.
struct WatchNeeds {
  std::vector<std::string> namespaces;  // only these; empty = all
  // Namespaces that this cluster lacks may be in other sources.
  bool namespaces_are_shared = false;
  std::string root_namespace = "istio-system";
  // NAMESPACE/NAME of the ConfigMap with Istio's MeshConfig; empty = none.
  std::string istio_config_map;
  bool root_namespace_is_set = true;  // MeshConfig does not change it
  std::string node_name;              // empty = not known: then the Pods of every node
  bool client_pods = false;           // Pods of this node give the identity of clients
  bool node_places = false;           // near endpoints: the labels of Nodes
  bool all_pods = false;              // verified pod names
  bool all_slices = false;            // those of Services with cluster IPs, too
  // Objects that give names to gateways (ManifestOptions::gateway_kinds).
  std::vector<Kind> gateway_kinds;
  std::set<std::string> selected_pods;  // namespaces whose Pods are ServiceEntries' endpoints
  std::optional<SliceSearch::Target> searched;  // the Service whose slices lack the label
  friend bool operator==(const WatchNeeds&, const WatchNeeds&) = default;
};

// The slices that a collection has.
enum class SliceChoice : std::uint8_t {
  Any,       // or no slices at all
  Labelled,  // of Kubernetes' controller, with the label of headless Services
  Named,     // of Kubernetes' controller, without it: of one headless Service
  Other,     // of other authors
};

struct PlannedCollection {
  std::string label;     // "endpointslices[headless]@shop": unique, and the same after a restart
  std::string resource;  // "endpointslices.discovery.k8s.io", as RBAC names it
  Kind kind = Kind::Service;
  std::string ns;  // empty = all
  Collection collection;
  SliceChoice slices = SliceChoice::Any;
  std::uint64_t revision = 0;  // another one: to be listed again
  // Nothing can be answered without it; the others may be forbidden.
  bool is_required = false;
  // A refusal is worth a warning, and counts as no fault of the source.
  bool is_optional = false;
};

// The label of SliceChoice::Named.
inline constexpr std::string_view kNamedSlices = "endpointslices.discovery.k8s.io[unlabelled]";

std::vector<PlannedCollection> plan_watches(const WatchNeeds& needs, const ServedKinds& served);

// The CRDs themselves, so that a kind is followed from the moment that it exists.
Collection crd_collection();
// Returns whether a CRD of that name ("sidecars.networking.istio.io") changes the plan.
bool is_crd_of_interest(std::string_view name);
// Returns whether a kind that is served changes the plan, with a CRD or built in.
bool is_plan_dependent_on(std::string_view kind);

}  // namespace meshdns::registry::kubernetes
