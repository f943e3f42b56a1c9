// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/address_set_builder.hpp"

#include <algorithm>

namespace meshdns::registry {

bool AddressSetBuilder::add(const IpAddress& address, std::uint32_t weight) {
  if (address.is_unspecified() || !seen_.insert(address).second) return false;
  weighted_ |= weight != 1;
  if (address.is_v4()) {
    std::array<std::uint8_t, 4> octets;
    std::ranges::copy_n(address.octets().begin() + 12, 4, octets.begin());
    set_.v4.push_back(octets);
    v4_weights_.push_back(weight);
  } else {
    set_.v6.push_back(address.octets());
    v6_weights_.push_back(weight);
  }
  return true;
}

AddressSet AddressSetBuilder::take() {
  if (weighted_) {
    set_.v4_weights = std::move(v4_weights_);
    set_.v6_weights = std::move(v6_weights_);
  }
  set_.v4.shrink_to_fit();
  set_.v6.shrink_to_fit();
  return std::move(set_);
}

}  // namespace meshdns::registry
