// SPDX-License-Identifier: Apache-2.0
// The places of endpoints, for services that are answered with near ones.
#include <algorithm>

#include "registry/derive/deriver.hpp"

namespace meshdns::registry {

// The narrowest setting counts: the object's, its namespace's, the mesh's.
void Deriver::set_distribution(TrafficDistribution own) {
  distribution_ = TrafficDistribution::Any;
  if (settings_.locality == LocalityChoice::Off) return;
  distribution_ = own;
  if (distribution_ == TrafficDistribution::Unset)
    distribution_ = tables_.namespaces.distribution_of(ns_->text());
  if (distribution_ == TrafficDistribution::Unset) distribution_ = settings_.traffic_distribution;
}

Ref<const EndpointPlace> Deriver::place_of_endpoint(const Endpoint& endpoint) {
  if (distribution_ == TrafficDistribution::Any) return {};
  return context_.places.place({{}, endpoint.zone, {}}, endpoint.node_name, endpoint.hinted_zones,
                               endpoint.hinted_nodes, tables_.symbols);
}

Ref<const EndpointPlace> Deriver::place_of_spec(const WorkloadSpec& spec) {
  if (distribution_ == TrafficDistribution::Any) return {};
  const Locality locality = spec.locality.empty()
                                ? locality_of_label(spec.labels).value_or(Locality())
                                : parse_locality(spec.locality);
  return context_.places.place(locality, {}, {}, {}, tables_.symbols);
}

Ref<const EndpointPlace> Deriver::place_of_pod(const Pod& pod) {
  if (distribution_ == TrafficDistribution::Any) return {};
  const auto labelled = locality_of_label(pod.meta.labels);
  return context_.places.place(
      labelled ? *labelled : tables_.nodes.locality_of(pod.meta.cluster, pod.node_name),
      pod.node_name, {}, {}, tables_.symbols);
}

// Hints count as in kube-proxy: only if every ready endpoint has some.
NearRule Deriver::near_rule(const EndpointList& list) const {
  NearRule rule{distribution_};
  if (distribution_ == TrafficDistribution::Any) return rule;
  const auto all_have = [&](std::vector<SymbolRef> EndpointPlace::* hints) {
    return std::ranges::all_of(list.entries, [&](const EndpointEntry& entry) {
      return !entry.ready || (entry.place && !((*entry.place).*hints).empty());
    });
  };
  rule.by_hinted_zones = !list.entries.empty() && all_have(&EndpointPlace::hinted_zones);
  rule.by_hinted_nodes = !list.entries.empty() && all_have(&EndpointPlace::hinted_nodes);
  return rule;
}

}  // namespace meshdns::registry
