// SPDX-License-Identifier: Apache-2.0
// The answers that ready endpoints make.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/snapshot/network_gateways.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

// Collects addresses into an AddressSet: unique, in the order of their first appearance.
class AddressSetBuilder {
 public:
  // A duplicate address keeps its first weight: an answer has each address once
  // (docs/semantics-istio.md, "Addresses in answers").  The unspecified address is none.
  // False: it was there already, or is no address.
  bool add(const IpAddress& address, std::uint32_t weight = 1);
  bool empty() const { return set_.empty(); }
  AddressSet take();

 private:
  AddressSet set_;
  std::vector<std::uint32_t> v4_weights_;
  std::vector<std::uint32_t> v6_weights_;
  std::unordered_set<IpAddress> seen_;
  bool weighted_ = false;
};

struct EndpointAddresses {
  // Each network has a copy of the addresses without a network, and of the gateways to others.  The
  // copies of one service have at most so many in all: without that, 2,048 networks and as many
  // such addresses were 4 million.
  static constexpr std::size_t kMaxCopies = 65'536;

  AddressSet all;                           // for clients without a network
  std::vector<ScopedAddresses> by_network;  // empty: clients of all networks get the same
  // Networks beyond the bound: their clients get the addresses without a network only.
  std::size_t networks_left_out = 0;
};
// `gateways`: null: clients of all networks get the same.
EndpointAddresses addresses_of(const EndpointList& endpoints, const NetworkGateways* gateways);

}  // namespace meshdns::registry
