// SPDX-License-Identifier: Apache-2.0
// The settings of the mesh that are in force: those of the configuration, then those of Istio's
// MeshConfig, then the defaults.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/model/mesh_settings.hpp"

namespace meshdns::registry {

// Returns `configured` with the settings that `config` has and the configuration does not set.
// `config` may be null.
MeshSettings effective_settings(MeshSettings configured, const MeshConfig* config);

// The kinds to read for DecodeOptions::gateway_kinds: a route needs its Gateway, and Gateways may
// be those of networks.
std::vector<Kind> gateway_kinds_to_read(const MeshSettings& settings);

// Whether `ns` and `name` are those of MeshSettings::istio_config_map.
bool is_istio_config_map(const MeshSettings& settings, std::string_view ns, std::string_view name);

// For messages: "default", "the configuration" or "ConfigMap istio-system/istio".
std::string describe_origin(const MeshSettings& settings, SettingOrigin origin);

}  // namespace meshdns::registry
