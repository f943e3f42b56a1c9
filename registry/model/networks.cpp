// SPDX-License-Identifier: Apache-2.0
#include "registry/model/networks.hpp"

#include <algorithm>

namespace meshdns::registry {

std::string_view network_label(const Labels& labels) {
  const auto at = std::ranges::lower_bound(labels, kNetworkLabel, {}, &Labels::value_type::first);
  return at == labels.end() || at->first != kNetworkLabel ? std::string_view()
                                                          : std::string_view(at->second);
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
