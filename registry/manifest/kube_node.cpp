// SPDX-License-Identifier: Apache-2.0
// core/v1 Node: the place of Pods; and the annotation that asks for near endpoints.
#include <array>

#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {
namespace {

constexpr std::array<std::string_view, 5> kNodeNames = {"apiVersion", "kind", "metadata", "spec",
                                                        "status"};
constexpr std::string_view kTrafficDistribution = "networking.istio.io/traffic-distribution";

}  // namespace

Resource read_node(Object& object) {
  const Fields fields(object.report, object.root, {kNodeNames});
  return KubeNode{std::move(object.meta)};
}

TrafficDistribution read_traffic_distribution(Object& object) {
  const auto word = object.annotation(kTrafficDistribution);
  if (!word || word->empty()) return TrafficDistribution::Unset;
  if (const auto distribution = parse_traffic_distribution(*word)) return *distribution;
  object.annotation_finding(Severity::Warning, kTrafficDistribution,
                            in_quotes(*word) +
                                " is not PreferSameZone, PreferSameNode, PreferClose "
                                "or Any; it is ignored");
  return TrafficDistribution::Unset;
}

}  // namespace meshdns::registry
