// SPDX-License-Identifier: Apache-2.0
// One worker's offers to the program in the kernel, limited: queries that the program passes on
// (over TCP, with options) would offer the same answer each time, and a client may ask about
// names without end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "dnsd/kernel/kernel_feed.hpp"

namespace meshdns::dnsd {

// The worker's thread only.
class KernelOffers {
 public:
  // An offer takes about 3 us: at most 3 % of a core.
  static constexpr std::uint32_t kPerSecond = 10'000;

  explicit KernelOffers(std::shared_ptr<const KernelFeed> feed) : feed_(std::move(feed)) {}

  // Call it before the snapshot is taken that answers.
  void begin() { moment_ = feed_->now(); }
  // Returns whether an answer may be offered now.  `now`: nanoseconds of a monotonic clock.
  bool is_open(std::uint64_t now);
  // REQUIRES: is_open().
  void offer(const KernelAnswer& answer, std::uint64_t now);

  const KernelFeed& feed() const { return *feed_; }

 private:
  static constexpr std::size_t kRecent = 4096;
  static constexpr std::uint64_t kSecondNs = 1'000'000'000;
  struct Recent {
    std::uint64_t hash = 0;
    std::uint64_t until = 0;
  };

  const std::shared_ptr<const KernelFeed> feed_;
  AnswerSlots::Moment moment_;
  std::uint64_t second_ends_ = 0;
  std::uint32_t left_ = 0;
  std::array<Recent, kRecent> recent_{};
};

}  // namespace meshdns::dnsd
