// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/rotation.hpp"

namespace meshdns::dnsd {

RotationTable::RotationTable(std::uint64_t seed) : state_(seed | 1), plain_(random()) {}

std::uint32_t RotationTable::random() {
  // xorshift64*: evenness is wanted here, not secrecy.
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<std::uint32_t>((state_ * 0x2545f4914f6cdd1dULL) >> 32);
}

std::uint64_t weighted_position(std::uint32_t turn, std::uint64_t total) {
  // Multiples of the golden ratio fill the circle more evenly than any other sequence: after n
  // turns every arc has its share to within a few turns.  A circle of 2^32 points, each met once.
  const std::uint32_t point = turn * 0x9e3779b9U;
  __extension__ using u128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<u128>(point) * total) >> 32);
}

std::size_t first_weighted_place(std::uint32_t turn, std::span<const std::uint32_t> weights) {
  std::uint64_t total = 0;
  for (const std::uint32_t weight : weights) total += weight;
  std::uint64_t position = weighted_position(turn, total);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (position < weights[i]) return i;
    position -= weights[i];
  }
  return weights.size() - 1;
}

}  // namespace meshdns::dnsd
