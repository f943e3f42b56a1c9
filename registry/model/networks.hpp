// SPDX-License-Identifier: Apache-2.0
// Networks of a mesh: the label that names them, and Istio's MeshNetworks.  Pure functions; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/label_selector.hpp"

namespace meshdns::registry {

// Of workloads: their network.  Of the Namespace object of the root namespace: the network of its
// cluster.  Of Services and Gateways: the network to which they are a gateway.
inline constexpr std::string_view kNetworkLabel = "topology.istio.io/network";

// The value of the label; empty: there is none.
std::string_view network_label(const Labels& labels);

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
