// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/slot_set.hpp"

#include <bit>
#include <cassert>

namespace meshdns::registry {
namespace {

constexpr std::uint32_t kBits = 64;

std::uint64_t bit_of(std::uint32_t index) { return std::uint64_t{1} << (index % kBits); }

}  // namespace

SlotSet::SlotSet(std::uint32_t bound) {
  std::size_t words = bound;
  do {
    words = (words + kBits - 1) / kBits;
    levels_.emplace_back(words, 0);
  } while (words > 1);
}

void SlotSet::insert(std::uint32_t slot) {
  for (Words& level : levels_) {
    level[slot / kBits] |= bit_of(slot);
    slot /= kBits;
  }
}

void SlotSet::erase(std::uint32_t slot) {
  for (Words& level : levels_) {
    std::uint64_t& word = level[slot / kBits];
    word &= ~bit_of(slot);
    if (word != 0) return;
    slot /= kBits;
  }
}

// The least member of a level that is not below `from`.
std::optional<std::uint32_t> SlotSet::next(std::size_t level, std::uint32_t from) const {
  const Words& words = levels_[level];
  const std::uint32_t index = from / kBits;
  if (index >= words.size()) return std::nullopt;
  if (const std::uint64_t rest = words[index] & (~std::uint64_t{0} << (from % kBits)); rest != 0)
    return index * kBits + static_cast<std::uint32_t>(std::countr_zero(rest));
  if (level + 1 == levels_.size()) return std::nullopt;
  const auto word = next(level + 1, index + 1);
  if (!word) return std::nullopt;
  assert(words[*word] != 0);
  return *word * kBits + static_cast<std::uint32_t>(std::countr_zero(words[*word]));
}

std::optional<std::uint32_t> SlotSet::next_cyclic(std::uint32_t slot) const {
  if (const auto found = next(0, slot)) return found;
  return next(0, 0);
}

}  // namespace meshdns::registry
