// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/random_pool.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace meshdns::dnsd {

void RandomPool::fill(void* out, std::size_t size) {
  auto* at = static_cast<std::uint8_t*>(out);
  while (size > 0) {
    if (used_ == octets_.size()) {
      std::size_t have = 0;
      while (have < octets_.size()) {
        const ssize_t got = getrandom(octets_.data() + have, octets_.size() - have, 0);
        if (got > 0) have += static_cast<std::size_t>(got);
        // Up to 256 octets are always given once the generator runs; only a signal can come
        // between.
        else if (errno != EINTR)
          std::abort();
      }
      used_ = 0;
    }
    const std::size_t part = size < octets_.size() - used_ ? size : octets_.size() - used_;
    std::memcpy(at, octets_.data() + used_, part);
    std::memset(octets_.data() + used_, 0, part);  // what was used is not to be found in memory
    used_ += part;
    at += part;
    size -= part;
  }
}

std::uint16_t RandomPool::u16() {
  std::uint16_t value;
  fill(&value, sizeof value);
  return value;
}

std::uint32_t RandomPool::u32() {
  std::uint32_t value;
  fill(&value, sizeof value);
  return value;
}

std::uint32_t RandomPool::below(std::uint32_t bound) {
  // Multiply-shift: uneven by at most bound / 2^32.
  return static_cast<std::uint32_t>((std::uint64_t{u32()} * bound) >> 32);
}

}  // namespace meshdns::dnsd
