// SPDX-License-Identifier: Apache-2.0
// Random numbers that nobody can predict, for IDs and ports: from the kernel's generator, fetched
// in blocks because a call for each number would cost more than the query around it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshdns::dnsd {

// One thread's.
class RandomPool {
 public:
  std::uint16_t u16();
  std::uint32_t u32();
  // 0 <= result < bound.  REQUIRES: bound > 0.
  std::uint32_t below(std::uint32_t bound);
  void fill(void* out, std::size_t size);

 private:
  std::array<std::uint8_t, 1024> octets_;
  std::size_t used_ = 1024;
};

}  // namespace meshdns::dnsd
