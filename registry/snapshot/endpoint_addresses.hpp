// SPDX-License-Identifier: Apache-2.0
// The answers that ready endpoints make.
#pragma once

#include <vector>

#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

struct EndpointAddresses {
  AddressSet all;                           // for clients without a network
  std::vector<ScopedAddresses> by_network;  // empty: no endpoint has a network
};
EndpointAddresses addresses_of(const EndpointList& endpoints);

}  // namespace meshdns::registry
