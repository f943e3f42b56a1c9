// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/near_answer.hpp"

#include "dnsd/answer/rotation.hpp"

namespace meshdns::dnsd {

std::size_t first_near_place(std::uint32_t turn, registry::Nearness nearness,
                             const registry::NearOrder& order, std::size_t size,
                             std::span<const std::uint32_t> weights) {
  const auto weight_of = [&](std::size_t place) -> std::uint64_t {
    if (order.nearness_of(place) != nearness) return 0;
    return weights.empty() ? 1 : weights[place];
  };
  std::uint64_t total = weights.empty() ? order.count(nearness) : 0;
  for (std::size_t i = 0; i < weights.size(); ++i) total += weight_of(i);
  if (total == 0) return 0;
  std::uint64_t position =
      weights.empty() ? first_place(turn, total) : weighted_position(turn, total);
  std::size_t last = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t weight = weight_of(i);
    if (position < weight) return i;
    position -= weight;
    if (order.nearness_of(i) == nearness) last = i;
  }
  return last;
}

}  // namespace meshdns::dnsd
