// SPDX-License-Identifier: Apache-2.0
// A histogram of the sizes of messages.  Only one worker adds to it, without locked instructions;
// any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dnsd/net/counter.hpp"

namespace meshdns::dnsd {

class SizeHistogram {
 public:
  // The limits are 31, 63, 127 and so on to 65535 bytes, so that the highest bit of a size gives
  // its bucket.
  static constexpr std::size_t kBuckets = 12;
  static constexpr std::size_t limit(std::size_t bucket) {
    return (std::size_t{1} << (bucket + kFirstBits)) - 1;
  }

  // REQUIRES: `size` is at most 65535 bytes.
  void add(std::size_t size) {
    // One instruction, which std::bit_width() is not: it also answers for 0.
    const auto highest_bit = static_cast<unsigned>(__builtin_clzll(size | 1)) ^ 63U;
    by_highest_bit_[highest_bit].add();
    sum_.add(size);
  }

  // Messages of this bucket alone; not cumulative.
  std::uint64_t count(std::size_t bucket) const {
    std::uint64_t total = by_highest_bit_[bucket + kFirstBits - 1].value();
    if (bucket == 0)
      for (std::size_t bit = 0; bit + 1 < kFirstBits; ++bit) total += by_highest_bit_[bit].value();
    return total;
  }
  std::uint64_t sum() const { return sum_.value(); }  // bytes

 private:
  static constexpr std::size_t kFirstBits = 5;
  Counter by_highest_bit_[kBuckets + kFirstBits - 1];  // not std::array, which checks each index
  Counter sum_;
};

}  // namespace meshdns::dnsd
