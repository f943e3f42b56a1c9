// SPDX-License-Identifier: Apache-2.0
// The addresses of one service and family in the order of their nearness to a client.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "registry/snapshot/endpoint_place.hpp"

namespace meshdns::registry {

// Never allocates.  REQUIRES: `places` outlives it.
class NearOrder {
 public:
  // `of_address`: AddressPlaces::v4 or v6.
  NearOrder(const AddressPlaces& places, std::span<const std::uint16_t> of_address,
            const Place& client)
      : of_address_(of_address) {
    for (std::size_t i = 0; i < std::min(places.places.size(), kMaxPlaces); ++i)
      nearness_[i] = places.rule.nearness(places.places[i].get(), client);
    for (const std::uint16_t place : of_address) ++counts_[index_of(nearness_[place])];
  }

  std::size_t count(Nearness nearness) const { return counts_[index_of(nearness)]; }
  Nearness nearness_of(std::size_t address) const { return nearness_[of_address_[address]]; }
  // REQUIRES: there are addresses.
  Nearness nearest() const {
    std::size_t i = 0;
    while (counts_[i] == 0) ++i;
    return static_cast<Nearness>(i);
  }

 private:
  // Each address has one place, and there is the unknown one.
  static constexpr std::size_t kMaxPlaces = 2 * AddressPlaces::kMaxAddresses + 1;
  static constexpr std::size_t index_of(Nearness nearness) {
    return static_cast<std::size_t>(nearness);
  }

  std::span<const std::uint16_t> of_address_;
  std::array<Nearness, kMaxPlaces> nearness_;
  std::array<std::size_t, kNearnesses> counts_{};
};

}  // namespace meshdns::registry
