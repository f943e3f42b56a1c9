// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/network_gateways.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "registry/base/each_once.hpp"

namespace meshdns::registry {

NetworkGateways::NetworkGateways(std::vector<Gateway> gateways) : gateways_(std::move(gateways)) {
  sort_each_once(gateways_, [](const Gateway& g) {
    return std::tuple(g.network.get(), g.address, g.cluster.get());
  });
  of_cluster_ = gateways_;
  std::ranges::sort(of_cluster_, {}, [](const Gateway& g) {
    return std::tuple(g.network.get(), g.cluster.get(), g.address);
  });
}

std::span<const NetworkGateways::Gateway> NetworkGateways::to(const Symbol* network,
                                                              const Symbol* cluster) const {
  if (cluster != nullptr) {
    const auto own = std::ranges::equal_range(
        of_cluster_, std::pair(network, cluster), {},
        [](const Gateway& g) { return std::pair(g.network.get(), g.cluster.get()); });
    if (!own.empty()) return own;
  }
  return std::ranges::equal_range(gateways_, network, {},
                                  [](const Gateway& g) { return g.network.get(); });
}

}  // namespace meshdns::registry
