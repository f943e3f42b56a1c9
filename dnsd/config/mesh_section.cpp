// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <algorithm>

#include "dnsd/config/value_codecs.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd::schema {
namespace {

using registry::LabelRequirement;
using registry::LabelSelector;
using Operator = LabelRequirement::Operator;

void check_requirement(LabelRequirement& requirement, const Node& node, const Place& place) {
  const bool takes_values = requirement.op == Operator::In || requirement.op == Operator::NotIn;
  if (requirement.key.empty())
    place.at("key").error(node.line(), "is missing");
  else if (node.find("operator") == nullptr)
    place.at("operator").error(node.line(), "is missing: In, NotIn, Exists or DoesNotExist");
  else if (takes_values == requirement.values.empty())
    place.at("values").error(node.line(), takes_values ? "In and NotIn need at least one value"
                                                       : "Exists and DoesNotExist take no values");
}

Codec<LabelRequirement> label_requirement() {
  return section<LabelRequirement>(
      {
          field("key", &LabelRequirement::key, text()),
          field("operator", &LabelRequirement::op, enumeration<Operator>()),
          field("values", &LabelRequirement::values, list(text())),
      },
      check_requirement);
}

// MeshConfig's words for one element of matchingRules.
Codec<LabelSelector> matching_rule() {
  return section<LabelSelector>({
      inner_map<LabelSelector>("namespaceSelector",
                               {
                                   field("matchLabels", &LabelSelector::match_labels, labels()),
                                   field("matchExpressions", &LabelSelector::match_expressions,
                                         list(label_requirement())),
                               }),
  });
}

Codec<registry::TtlSettings> ttl() {
  using registry::TtlSettings;
  return section<TtlSettings>({
      field("vip", &TtlSettings::vip, number(0, kMaxTtl)),
      field("endpoint", &TtlSettings::endpoint, number(0, kMaxTtl)),
      field("kubernetes", &TtlSettings::kubernetes, number(0, kMaxTtl)),
      field("negative", &TtlSettings::negative, number(0, kMaxTtl)),
  });
}

// The ConfigMap with Istio's MeshConfig: NAMESPACE/istio, or NAMESPACE/istio-REVISION.
Codec<std::string> istio_config_map() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    const std::size_t slash = std::min(words.find('/'), words.size());
    const std::string_view ns = words.substr(0, slash);
    const std::string_view name = words.substr(std::min(slash + 1, words.size()));
    const bool is_istio = name == "istio" || (name.starts_with("istio-") && is_label(name));
    if (words.empty() || (is_istio && is_label(ns) && to_lower(words) == words))
      return std::string(words);
    return fail(in_quotes(words) +
                " is not of the form NAMESPACE/istio or NAMESPACE/istio-REVISION; \"\" reads none");
  };
  return text_value(parse);
}

// The classes of Gateways and Ingresses, each with NAMESPACE/NAME of a Service.
Codec<registry::Labels> services_of_classes() {
  return checked(text_map(128), [](const registry::Labels& services) -> std::string {
    for (const auto& [class_name, service] : services) {
      const std::string_view text = service;
      const std::size_t slash = std::min(text.find('/'), text.size());
      const bool is_good = is_label(text.substr(0, slash)) &&
                           is_label(text.substr(std::min(slash + 1, text.size()))) &&
                           to_lower(text) == text;
      if (!is_good)
        return "has " + in_quotes(text) + " for " + in_quotes(class_name) +
               ", which is not of the form NAMESPACE/NAME";
    }
    return {};
  });
}

Codec<registry::GatewayNameSettings> gateway_names() {
  using registry::GatewayNameSettings;
  return section<GatewayNameSettings>({
      field("kinds", &GatewayNameSettings::kinds, list(enumeration<registry::Kind>())),
      field("domains", &GatewayNameSettings::domains, list(domain())),
      field("services", &GatewayNameSettings::services, services_of_classes()),
  });
}

// A setting that Istio's MeshConfig has, too.  Null, and printed as null: the configuration does
// not set it.
template <typename V>
Field<registry::MeshSettings> mesh_config_field(
    std::string_view key, V registry::MeshSettings::* member,
    registry::SettingOrigin registry::SettingOrigins::* origin,
    const std::type_identity_t<Codec<V>>& codec) {
  using registry::MeshSettings;
  return field_of<MeshSettings>(
      key,
      [=, read = codec.read](const Node& node, const Place& place, MeshSettings& settings) {
        if (node.is_null()) return;
        auto value = read(node, place);
        if (!value) return;
        settings.*member = *std::move(value);
        settings.origins.*origin = registry::SettingOrigin::Configuration;
      },
      [=, print = codec.print](Json& json, const MeshSettings& settings) {
        if (settings.origins.*origin == registry::SettingOrigin::Configuration)
          print(json, settings.*member);
        else
          json.Null();
      },
      codec.keys);
}

}  // namespace

Codec<registry::ServiceEntryVisibility> service_entry_visibility() {
  using registry::ServiceEntryVisibility;
  using registry::VisibilityPolicy;
  const auto policy = section<VisibilityPolicy>({
      field("visibility", &VisibilityPolicy::visibility, enumeration<registry::Visibility>()),
      field("matchingRules", &VisibilityPolicy::namespace_selectors, list(matching_rule())),
  });
  return section<ServiceEntryVisibility>({
      field("defaultVisibility", &ServiceEntryVisibility::default_visibility,
            enumeration<registry::Visibility>()),
      field("policies", &ServiceEntryVisibility::policies, list(policy)),
  });
}

Codec<registry::MeshSettings> mesh() {
  using registry::MeshSettings;
  using registry::SettingOrigins;
  return section<MeshSettings>({
      field("cluster_domain", &MeshSettings::cluster_domain, domain()),
      mesh_config_field("root_namespace", &MeshSettings::root_namespace,
                        &SettingOrigins::root_namespace, namespace_name()),
      field("endpoint_answers", &MeshSettings::endpoint_answers, boolean()),
      field("auto_allocate", &MeshSettings::auto_allocate, enumeration<registry::AutoAllocate>()),
      field("vip_cidr_v4", &MeshSettings::vip_cidr_v4, vip_prefix(true, 4, 30)),
      field("vip_cidr_v6", &MeshSettings::vip_cidr_v6, vip_prefix(false, 8, 126)),
      field("vip_namespace_quota", &MeshSettings::vip_namespace_quota, number(0, 1U << 24)),
      mesh_config_field("default_export_to", &MeshSettings::default_export_to,
                        &SettingOrigins::default_export_to, export_to()),
      mesh_config_field("service_entry_visibility", &MeshSettings::service_entry_visibility,
                        &SettingOrigins::service_entry_visibility, service_entry_visibility()),
      field("ttl", &MeshSettings::ttl, ttl()),
      field("authoritative", &MeshSettings::authoritative, enumeration<registry::Authoritative>()),
      field("cluster_set_authoritative", &MeshSettings::cluster_set_authoritative, boolean()),
      field("reverse_zones", &MeshSettings::reverse_zones, zone_list(false)),
      field("fallthrough", &MeshSettings::fallthrough, zone_list(true)),
      field("namespaces", &MeshSettings::namespaces, list(namespace_name())),
      field("pods", &MeshSettings::pods, enumeration<registry::PodNames>()),
      field("endpoint_pod_names", &MeshSettings::endpoint_pod_names, boolean()),
      field("ignore_empty_service", &MeshSettings::ignore_empty_service, boolean()),
      field("search_shortcut", &MeshSettings::search_shortcut,
            enumeration<registry::SearchShortcut>()),
      field("claims", &MeshSettings::claims, enumeration<registry::Claims>()),
      field("clusters", &MeshSettings::clusters, enumeration<registry::ClusterChoice>()),
      field("locality", &MeshSettings::locality, enumeration<registry::LocalityChoice>()),
      field("traffic_distribution", &MeshSettings::traffic_distribution,
            enumeration<registry::TrafficDistribution>()),
      field("networks", &MeshSettings::networks, enumeration<registry::NetworkChoice>()),
      field("istio_config_map", &MeshSettings::istio_config_map, istio_config_map()),
      field("gateway_names", &MeshSettings::gateway_names, gateway_names()),
  });
}

}  // namespace meshdns::dnsd::schema
