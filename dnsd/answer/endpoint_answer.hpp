// SPDX-License-Identifier: Apache-2.0
// Answers that name the endpoints of a Service: the addresses of one of them, and SRV records.  The
// work depends on the size of the reply, not on the number of endpoints.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dnsd/answer/decision.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/view/near_order.hpp"

namespace meshdns::dnsd {

// Selects the first address of a set: each equally often, or in proportion to its weight.
//
// A counter per set, in a table of the worker's own: exact where a shared counter would be a cache
// line that all workers write, and random choice would be uneven over the few queries of a quiet
// set.  Two sets that meet in one place of the table take turns with it and begin anew at a random
// point each time: still even, only not exactly.
// One worker's thread only.
class RotationTable {
 public:
  // Different workers begin at different points.
  explicit RotationTable(std::uint64_t seed);

  // A number that is one higher at each call with this key (0 has no special meaning).
  std::uint32_t next(std::uint64_t key) {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15ULL;
    Slot& slot = slots_[mixed >> (64 - kBits)];
    const auto tag = static_cast<std::uint32_t>(mixed >> 8);
    if (slot.tag != tag) slot = {tag, random()};
    return slot.counter++;
  }
  // A number that is one higher at each call, whatever for.
  std::uint32_t next() { return plain_++; }

 private:
  static constexpr unsigned kBits = 13;
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t counter = 0;
  };
  std::uint32_t random();

  std::uint64_t state_;
  std::uint32_t plain_;
  std::array<Slot, std::size_t{1} << kBits> slots_{};
};

// The place that is first at this turn.  Over any `size` turns each place is first once.
// REQUIRES: size > 0.
inline std::size_t first_place(std::uint32_t turn, std::size_t size) {
  return turn % static_cast<std::uint32_t>(size);
}
// A point below `total`, which is met as often as any other and spread out rather than in runs.
// REQUIRES: total > 0.
std::uint64_t weighted_position(std::uint32_t turn, std::uint64_t total);
// The same in proportion to `weights`, spread out rather than in runs.
// REQUIRES: not empty, not all zero.
std::size_t first_weighted_place(std::uint32_t turn, std::span<const std::uint32_t> weights);

// `mesh.locality`: some addresses are nearer to the client than others.  Returns the address that
// is first among those of one nearness: each equally often, or in proportion to its weight.
// `weights`: empty = all equal.  REQUIRES: there is an address of that nearness.
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

struct AnswerContext;
// REQUIRES: Verdict::EndpointAddresses.
void answer_endpoint(const Decision& decision, AnswerContext& context);
// REQUIRES: Verdict::Ports.
void answer_ports(const Decision& decision, AnswerContext& context);

}  // namespace meshdns::dnsd
