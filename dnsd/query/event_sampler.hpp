// SPDX-License-Identifier: Apache-2.0
// Chooses the events that are counted: all while they are rare, and about 250 to 1,000 a second
// while they are frequent, each with the number of events that it stands for.  The gaps between
// them are random, so that clients that repeat a pattern (A and AAAA, a search list) are counted
// fairly.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshdns::dnsd {

// One thread.  Times are nanoseconds of a monotonic clock.
class EventSampler {
 public:
  static constexpr std::uint32_t kMaxWeight = 4096;

  explicit EventSampler(std::uint64_t seed) : random_(seed | 1U) {}

  // To be called now and then: events that have become rare are counted more often.
  void observe(std::uint64_t now) {
    if (now >= relax_at_) [[unlikely]]
      relax(now);
  }
  // Whether this event is counted.  Then take() must follow, or put_off().
  bool is_due() { return --left_ == 0; }
  // Returns the number of events that this one stands for.
  std::uint32_t take(std::uint64_t now) {
    const std::uint32_t weight = weight_;
    if (++taken_ == kStep) {
      if (now < began_ + kShortest) weight_ = std::min(2 * weight_, kMaxWeight);
      begin_step(now);
    }
    draw();
    return weight;
  }
  // The next event is counted in place of this one.
  void put_off() { left_ = 1; }

 private:
  // A step of so many events may take from 64 ms to 256 ms.
  static constexpr std::uint32_t kStep = 64;
  static constexpr std::uint64_t kShortest = 64'000'000;
  static constexpr std::uint64_t kLongest = 256'000'000;

  void begin_step(std::uint64_t now) {
    taken_ = 0;
    began_ = now;
    relax_at_ = now + kLongest;
  }
  void relax(std::uint64_t now) {
    const std::uint64_t halvings = 1 + (now - relax_at_) / kLongest;
    weight_ = std::max<std::uint32_t>(1, weight_ >> std::min<std::uint64_t>(halvings, 31));
    begin_step(now);
    if (left_ >= 2 * weight_) draw();
  }
  // From 1 to 2 * weight - 1, so weight_ in the mean.
  void draw() {
    random_ ^= random_ << 13;  // xorshift64 (Marsaglia, 2003)
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    left_ = 1 + static_cast<std::uint32_t>((random_ >> 32) % (2 * weight_ - 1));
  }

  std::uint64_t random_;
  std::uint32_t left_ = 1;  // until the next event that is counted
  std::uint32_t weight_ = 1;
  std::uint32_t taken_ = 0;  // in this step
  std::uint64_t began_ = 0;  // this step
  std::uint64_t relax_at_ = 0;
};

}  // namespace meshdns::dnsd
