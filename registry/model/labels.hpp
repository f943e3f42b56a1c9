// SPDX-License-Identifier: Apache-2.0
// Labels of objects and the selectors of labels (metav1.LabelSelector); the places of workloads,
// which labels may name: their locality and their network.  Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

// Sorted by key, keys unique.
using Labels = std::vector<std::pair<std::string, std::string>>;
// Returns whether every pair of `selector` is in `labels`; an empty selector matches everything.
bool selects(const Labels& selector, const Labels& labels);

struct LabelRequirement {
  enum class Operator : std::uint8_t { In, NotIn, Exists, DoesNotExist };
  std::string key;
  Operator op = Operator::Exists;
  std::vector<std::string> values;  // of In and NotIn
  friend bool operator==(const LabelRequirement&, const LabelRequirement&) = default;
};

// All of it must hold; an empty selector selects everything.
struct LabelSelector {
  Labels match_labels;
  std::vector<LabelRequirement> match_expressions;
  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};

bool selects(const LabelSelector& selector, const Labels& labels);

// Istio's locality.  Empty parts are unknown.
struct Locality {
  std::string region;
  std::string zone;
  std::string subzone;
  bool empty() const { return region.empty() && zone.empty() && subzone.empty(); }
  std::string to_string() const;  // "region/zone/subzone" without unknown parts at the end
  friend bool operator==(const Locality&, const Locality&) = default;
};

// "region/zone/subzone", as in WorkloadEntry.spec.locality; the zone alone is "/zone".
Locality parse_locality(std::string_view text, char separator = '/');
// Reads a Node's labels topology.kubernetes.io/region and zone, or their older names, and
// topology.istio.io/subzone.
Locality locality_of_node(const Labels& labels);
// Reads the label istio-locality of a Pod or WorkloadEntry ("region.zone.subzone"); nullopt without
// one.
std::optional<Locality> locality_of_label(const Labels& labels);

// Service.spec.trafficDistribution, and Istio's annotation networking.istio.io/traffic-distribution
// of Services, ServiceEntries and Namespaces.
enum class TrafficDistribution : std::uint8_t {
  Unset,     // decided by the next wider setting
  Any,       // no endpoint is preferred
  SameZone,  // PreferSameZone, PreferClose
  SameNode,  // PreferSameNode
};
std::string_view to_string(TrafficDistribution distribution);  // "PreferSameZone"
// In any case, as Istio reads the annotation.  nullopt: another word.
std::optional<TrafficDistribution> parse_traffic_distribution(std::string_view word);

// The label names the network of a workload; of a cluster, on the Namespace object of its root
// namespace; and the network to which a Service or Gateway is a gateway.
inline constexpr std::string_view kNetworkLabel = "topology.istio.io/network";

// The value of the label; empty: there is none.
std::string_view network_label(const Labels& labels);

// The name of the service that a workload is part of, as Istio finds it: the label
// service.istio.io/canonical-name, app.kubernetes.io/name or app; empty: there is none.
std::string_view canonical_name(const Labels& labels);

// One network of MeshNetworks.
struct MeshNetwork {
  std::string name;
  std::vector<std::string> registries;        // endpoints[].fromRegistry: names of clusters
  std::vector<IpPrefix> prefixes;             // endpoints[].fromCidr
  std::vector<IpAddress> gateways;            // gateways[].address
  std::vector<std::string> gateway_services;  // gateways[].registryServiceName; canonical hosts
  friend bool operator==(const MeshNetwork&, const MeshNetwork&) = default;
};
using MeshNetworks = std::vector<MeshNetwork>;  // by name, each once

// The network of an endpoint that has none otherwise: that of its cluster, else that of the widest
// prefix around its address, as in Istio; of several equal ones the first by name.  Empty: none.
std::string_view network_of(const MeshNetworks& networks, std::string_view cluster,
                            const IpAddress& address);

}  // namespace meshdns::registry
