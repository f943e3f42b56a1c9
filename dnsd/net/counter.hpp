// SPDX-License-Identifier: Apache-2.0
// A number that one thread writes, without locked instructions, and any thread may read.
#pragma once

#include <atomic>
#include <cstdint>

namespace meshdns::dnsd {

class Counter {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace meshdns::dnsd
