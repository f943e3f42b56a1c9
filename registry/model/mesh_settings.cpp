// SPDX-License-Identifier: Apache-2.0
#include "registry/model/mesh_settings.hpp"

#include <optional>
#include <utility>

namespace meshdns::registry {
namespace {

template <typename T>
void take(const std::optional<T>& value, T& setting, SettingOrigin& origin) {
  if (!value || origin == SettingOrigin::Configuration) return;
  setting = *value;
  origin = SettingOrigin::MeshConfig;
}

}  // namespace

MeshSettings effective_settings(MeshSettings configured, const MeshConfig* config) {
  if (config == nullptr) return configured;
  MeshSettings settings = std::move(configured);
  SettingOrigins& origins = settings.origins;
  take(config->root_namespace, settings.root_namespace, origins.root_namespace);
  take(config->default_service_export_to, settings.default_export_to, origins.default_export_to);
  take(config->service_entry_visibility, settings.service_entry_visibility,
       origins.service_entry_visibility);
  take(outbound_policy_of(config->meta), settings.outbound_policy, origins.outbound_policy);
  settings.mesh_networks = config->networks;
  return settings;
}

std::vector<Kind> gateway_kinds_to_read(const MeshSettings& settings) {
  const GatewayNameSettings& names = settings.gateway_names;
  std::vector<Kind> kinds = names.kinds;
  const bool needs_gateways = settings.networks == NetworkChoice::Gateways ||
                              names.has(Kind::HttpRoute) || names.has(Kind::TlsRoute) ||
                              names.has(Kind::GrpcRoute);
  if (needs_gateways && !names.has(Kind::Gateway)) kinds.push_back(Kind::Gateway);
  return kinds;
}

bool is_istio_config_map(const MeshSettings& settings, std::string_view ns, std::string_view name) {
  const std::string_view wanted = settings.istio_config_map;
  return wanted.size() == ns.size() + 1 + name.size() && wanted.starts_with(ns) &&
         wanted.ends_with(name) && wanted[ns.size()] == '/';
}

std::string describe_origin(const MeshSettings& settings, SettingOrigin origin) {
  switch (origin) {
    case SettingOrigin::Default:
      return "default";
    case SettingOrigin::Configuration:
      return "the configuration";
    case SettingOrigin::MeshConfig:
      return "ConfigMap " + settings.istio_config_map;
  }
  return {};
}

}  // namespace meshdns::registry
