// SPDX-License-Identifier: Apache-2.0
// The place of a workload, and the wish of a service to be answered with near endpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/model/label_selector.hpp"

namespace meshdns::registry {

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
// Of a Node: topology.kubernetes.io/region and zone, or their older names, and
// topology.istio.io/subzone.
Locality locality_of_node(const Labels& labels);
// Of the label istio-locality of a Pod or WorkloadEntry ("region.zone.subzone"); nullopt: it has
// none.
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

}  // namespace meshdns::registry
