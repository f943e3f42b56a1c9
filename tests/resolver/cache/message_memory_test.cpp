// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/cached_message.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

namespace meshdns::dnsd::test {
namespace {

TEST(MessageMemoryTest, GivesEachItsOwnAndTakesItBack) {
  std::map<std::uint8_t*, std::size_t> held;
  // More than one chunk of each size, released in an order of their own.
  for (int round = 0; round < 3; ++round) {
    for (std::size_t size = 1; size < 3'000; size += 7) {
      for (int i = 0; i < 8; ++i) {
        auto* const memory = static_cast<std::uint8_t*>(message_memory::allocate(size));
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 16, 0u);
        std::memset(memory, static_cast<int>(size & 0xff), size);
        ASSERT_TRUE(held.emplace(memory, size).second);
      }
    }
    const std::uint8_t* end = nullptr;
    bool odd = false;
    for (auto at = held.begin(); at != held.end(); odd = !odd) {
      const auto [memory, size] = *at;
      ASSERT_LE(end, memory) << "they overlap";
      end = memory + size;
      ASSERT_EQ(memory[0], size & 0xff);
      ASSERT_EQ(memory[size - 1], size & 0xff);
      if (!odd && round < 2) {
        ++at;
        continue;
      }
      message_memory::release(memory, size);
      at = held.erase(at);
    }
  }
  for (const auto& [memory, size] : held) message_memory::release(memory, size);
}

TEST(MessageMemoryTest, CountsWhatAMessageCostsAtLeast) {
  for (std::size_t size = 1; size < 70'000; ++size) {
    ASSERT_GE(message_memory::cost(size), size);
    ASSERT_LE(message_memory::cost(size), size + 32 + size / 32);
  }
}

}  // namespace
}  // namespace meshdns::dnsd::test
