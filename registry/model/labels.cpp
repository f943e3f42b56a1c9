// SPDX-License-Identifier: Apache-2.0
#include "registry/model/labels.hpp"

#include <algorithm>

#include "registry/base/enum_text.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

bool holds(const LabelRequirement& requirement, const Labels& labels) {
  using Operator = LabelRequirement::Operator;
  const auto label = std::ranges::find(labels, requirement.key, &Labels::value_type::first);
  const bool is_there = label != labels.end();
  const auto is_listed = [&] {
    return std::ranges::find(requirement.values, label->second) != requirement.values.end();
  };
  switch (requirement.op) {
    case Operator::In:
      return is_there && is_listed();
    case Operator::NotIn:
      return !is_there || !is_listed();  // as Kubernetes: an object without the label is selected
    case Operator::Exists:
      return is_there;
    case Operator::DoesNotExist:
      return !is_there;
  }
  return false;
}

// Empty: there is no such label.
std::string_view value_of(const Labels& labels, std::string_view key) {
  const auto at = std::ranges::lower_bound(labels, key, {}, &Labels::value_type::first);
  return at == labels.end() || at->first != key ? std::string_view() : std::string_view(at->second);
}

std::string first_label(const Labels& labels, std::string_view key, std::string_view older_key) {
  const std::string_view value = value_of(labels, key);
  return std::string(value.empty() ? value_of(labels, older_key) : value);
}

}  // namespace

bool selects(const Labels& selector, const Labels& labels) {
  return std::ranges::includes(labels, selector);
}

bool selects(const LabelSelector& selector, const Labels& labels) {
  return selects(selector.match_labels, labels) &&
         std::ranges::all_of(selector.match_expressions,
                             [&](const auto& requirement) { return holds(requirement, labels); });
}

std::string Locality::to_string() const {
  std::string text = region + "/" + zone + "/" + subzone;
  while (text.ends_with('/')) text.pop_back();
  return text;
}

Locality parse_locality(std::string_view text, char separator) {
  Locality locality;
  for (std::string* part : {&locality.region, &locality.zone, &locality.subzone}) {
    const std::size_t end = std::min(text.find(separator), text.size());
    *part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return locality;
}

Locality locality_of_node(const Labels& labels) {
  return {
      first_label(labels, "topology.kubernetes.io/region",
                  "failure-domain.beta.kubernetes.io/region"),
      first_label(labels, "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
      std::string(value_of(labels, "topology.istio.io/subzone"))};
}

std::optional<Locality> locality_of_label(const Labels& labels) {
  const std::string_view text = value_of(labels, "istio-locality");
  if (text.empty()) return std::nullopt;
  // Values of labels have no slash; Istio writes dots, or slashes where nothing forbids them.
  return parse_locality(text, text.find('/') == std::string_view::npos ? '.' : '/');
}

std::string_view to_string(TrafficDistribution distribution) {
  return enum_text<TrafficDistribution::SameNode>(distribution,
                                                  {"", "Any", "PreferSameZone", "PreferSameNode"});
}

std::optional<TrafficDistribution> parse_traffic_distribution(std::string_view word) {
  const std::string lower = to_lower(word);
  if (lower == "prefersamezone" || lower == "preferclose") return TrafficDistribution::SameZone;
  if (lower == "prefersamenode") return TrafficDistribution::SameNode;
  if (lower == "any") return TrafficDistribution::Any;
  return std::nullopt;
}

std::string_view network_label(const Labels& labels) { return value_of(labels, kNetworkLabel); }

std::string_view canonical_name(const Labels& labels) {
  for (const std::string_view key :
       {"service.istio.io/canonical-name", "app.kubernetes.io/name", "app"})
    if (const std::string_view name = value_of(labels, key); !name.empty()) return name;
  return {};
}

std::string_view network_of(const MeshNetworks& networks, std::string_view cluster,
                            const IpAddress& address) {
  if (!cluster.empty())
    for (const MeshNetwork& network : networks)
      if (std::ranges::find(network.registries, cluster) != network.registries.end())
        return network.name;
  const MeshNetwork* widest = nullptr;
  unsigned length = 0;
  for (const MeshNetwork& network : networks)
    for (const IpPrefix& prefix : network.prefixes)
      if ((widest == nullptr || prefix.length < length) && prefix.contains(address)) {
        widest = &network;
        length = prefix.length;
      }
  return widest == nullptr ? std::string_view() : std::string_view(widest->name);
}

}  // namespace meshdns::registry
