// SPDX-License-Identifier: Apache-2.0
// Answers with addresses of which some are nearer to the client than others (`mesh.locality`).
#pragma once

#include <cstdint>
#include <span>

#include "dnsd/answer/answer.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/view/near_order.hpp"

namespace meshdns::dnsd {

// The address that is first among those of one nearness: each equally often, or in proportion to
// its weight.  `weights`: empty = all equal.  REQUIRES: there is an address of that nearness.
std::size_t first_near_place(std::uint32_t turn, registry::Nearness nearness,
                             const registry::NearOrder& order, std::size_t size,
                             std::span<const std::uint32_t> weights);

// Calls `add(place)` for the addresses, the nearest first, or for the nearest ones alone, until it
// returns false.  `next_turn(nearness)`: RotationTable::next() for these.
template <typename NextTurn, typename Add>
void for_each_by_nearness(const registry::NearOrder& order, std::size_t size,
                          std::span<const std::uint32_t> weights, bool nearest_only,
                          const NextTurn& next_turn, const Add& add) {
  for (std::size_t i = 0; i < registry::kNearnesses; ++i) {
    const auto nearness = static_cast<registry::Nearness>(i);
    std::size_t left = order.count(nearness);
    if (left == 0) continue;
    std::size_t place =
        left == 1 ? 0 : first_near_place(next_turn(nearness), nearness, order, size, weights);
    for (; left > 0; place = place + 1 == size ? 0 : place + 1) {
      if (order.nearness_of(place) != nearness) continue;
      if (!add(place)) return;
      --left;
    }
    if (nearest_only) return;
  }
}

}  // namespace meshdns::dnsd
