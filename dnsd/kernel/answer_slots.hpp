// SPDX-License-Identifier: Apache-2.0
// The counters that tell the program in the kernel whether an answer still holds
// (dnsd/kernel/program/answer_maps.h): what an answer depends on, and what a change moves.
//
// An answer depends on the hosts that were looked for to find it, whether there were any or not,
// and a change of a host moves the slot of that host.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/ip_address.hpp"
#include "registry/controller.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// Slots that an answer depends on, each once.
class AnswerDependencies {
 public:
  // False: there is no room for another one.
  bool add(std::uint32_t slot) {
    if (std::ranges::find(slots(), slot) != slots().end()) return true;
    if (size_ == slots_.size()) return false;
    slots_[size_++] = slot;
    return true;
  }
  std::span<const std::uint32_t> slots() const { return {slots_.data(), size_}; }

 private:
  std::array<std::uint32_t, MESHDNS_MAX_DEPENDENCIES> slots_{};
  std::size_t size_ = 0;
};

// Any thread, but the changes: those are the control thread's.
class AnswerSlots {
 public:
  using Key = std::array<std::uint8_t, 16>;

  // `counters`: of MESHDNS_SLOTS, which the program reads.  `key`: random, so that nobody can
  // choose names that share a slot.
  AnswerSlots(std::span<std::uint64_t> counters, const Key& key) : counters_(counters), key_(key) {}

  // --- answers ---
  // A moment in which no change is under way.  Take it before the snapshot that is to answer.
  class Moment {
   public:
    constexpr Moment() = default;
    bool is_usable() const { return sequence_ % 2 == 0; }

   private:
    friend class AnswerSlots;
    explicit Moment(std::uint64_t sequence) : sequence_(sequence) {}
    std::uint64_t sequence_ = 1;
  };
  Moment now() const { return Moment(sequence_.load(std::memory_order_acquire)); }
  // Returns whether no change has begun since.  Ask after the stamps have been read: then they are
  // older than any later change.  Each counter is read and moved in order with the sequence, so
  // that who has seen a moved counter sees that the change has begun.
  bool holds(const Moment& moment) const {
    return moment.is_usable() && sequence_.load(std::memory_order_acquire) == moment.sequence_;
  }

  // The slots of these names.  False: they are too many.
  bool add_names(const registry::ReadNames& names, std::string_view cluster_domain,
                 AnswerDependencies& dependencies) const;
  std::uint32_t slot_of(std::string_view name) const;
  std::uint32_t slot_of(const IpAddress& client) const;
  // The sum of these counters and that of everything.
  std::uint64_t stamp(std::span<const std::uint32_t> slots) const;

  // --- changes ---
  // Moves the counters of all that `change` may change.  Call it before the change is published,
  // and end_change() after that of the last of several changes.  `cluster_domain`: as of the new
  // snapshot.
  void begin_change(const registry::Changes& changes, std::string_view cluster_domain);
  void end_change();
  // No moment is usable any more, and no answer holds.
  void retire();

 private:
  void move(std::uint32_t slot);
  void move_host(std::string_view host, std::string_view cluster_domain);

  const std::span<std::uint64_t> counters_;
  const Key key_;
  std::atomic<std::uint64_t> sequence_{0};  // odd: a change is under way
  bool is_retired_ = false;                 // the control thread's
};

}  // namespace meshdns::dnsd
