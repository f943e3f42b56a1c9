// SPDX-License-Identifier: Apache-2.0
// Istio's MeshNetworks: the text under the key `meshNetworks` of the ConfigMap with MeshConfig.
#pragma once

#include "registry/manifest/document.hpp"
#include "registry/manifest/fields.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

// Prefixes of all networks: each endpoint without a network is compared with all of them.
inline constexpr std::size_t kMaxNetworkPrefixes = 1'024;

// Reads the document; errors are in `report`.
MeshNetworks read_mesh_networks(Report& report, const Node& root);

}  // namespace meshdns::registry
