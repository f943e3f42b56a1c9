// SPDX-License-Identifier: Apache-2.0
// Latencies in buckets of one per cent: no allocation while measuring, any number of samples.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace meshdns::bench {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds) {
    ++buckets_[bucket_of(nanoseconds)];
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  void clear() { *this = {}; }

  // The least latency that `share` of the samples do not exceed; 0 without samples.
  std::uint64_t quantile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > wanted || (seen == count_ && count_ > 0)) return upper_end(i);
    }
    return 0;
  }

 private:
  static constexpr unsigned kBits = 6;  // 64 steps to the next power of two
  static constexpr std::size_t kSteps = std::size_t{1} << kBits;

  static std::size_t bucket_of(std::uint64_t value) {
    if (value < kSteps) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return (shift + std::size_t{1}) * kSteps + ((value >> shift) & (kSteps - 1));
  }
  static std::uint64_t upper_end(std::size_t bucket) {
    if (bucket < kSteps) return bucket;
    const std::size_t shift = bucket / kSteps - 1;
    return ((kSteps + bucket % kSteps + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - kBits + 1) * kSteps> buckets_{};
  std::uint64_t count_ = 0;
};

}  // namespace meshdns::bench
