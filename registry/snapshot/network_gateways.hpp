// SPDX-License-Identifier: Apache-2.0
// The gateways of the mesh's networks: the addresses that clients of other networks are answered
// instead of endpoints (`mesh.networks: gateways`).
#pragma once

#include <span>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/ref.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// Immutable; any thread.
class NetworkGateways final : public RefCounted {
 public:
  struct Gateway {
    SymbolRef network;
    SymbolRef cluster;  // null: of no certain one
    IpAddress address;
    friend bool operator==(const Gateway&, const Gateway&) = default;
  };

  explicit NetworkGateways(std::vector<Gateway> gateways);

  // The gateways to endpoints of that network and cluster: those of the cluster, else all of the
  // network, as in Istio.  In the order of their addresses; an address may be there twice.
  std::span<const Gateway> to(const Symbol* network, const Symbol* cluster) const;
  std::span<const Gateway> all() const { return gateways_; }

 private:
  std::vector<Gateway> gateways_;    // by network, address
  std::vector<Gateway> of_cluster_;  // by network, cluster, address
};

}  // namespace meshdns::registry
