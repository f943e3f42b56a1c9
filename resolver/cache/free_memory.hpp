// SPDX-License-Identifier: Apache-2.0
// Makes use after free visible in memory that a list of ours keeps for later.
//
// Under a sanitizer no list keeps memory: the sanitizer watches what the heap has.  In a debug
// build, free memory is filled with a pattern, which makes its use fail early, and a write to it
// ends the process when the memory is taken again.  A release build does nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace meshdns::dnsd {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kKeepsFreeMemory = false;
#elif !defined(__has_feature)  // GCC
inline constexpr bool kKeepsFreeMemory = true;
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kKeepsFreeMemory = false;
#else
inline constexpr bool kKeepsFreeMemory = true;
#endif

#if defined(NDEBUG)
inline constexpr bool kPoisonsFreeMemory = false;
#else
inline constexpr bool kPoisonsFreeMemory = kKeepsFreeMemory;
#endif

inline constexpr std::uint8_t kPoison = 0xdb;

inline void poison_free_memory(void* memory, std::size_t size) {
  if constexpr (kPoisonsFreeMemory) std::memset(memory, kPoison, size);
}

// REQUIRES: poison_free_memory() was called for it.
inline void check_free_memory(const void* memory, std::size_t size) {
  if constexpr (kPoisonsFreeMemory) {
    const auto* const begin = static_cast<const std::uint8_t*>(memory);
    if (std::all_of(begin, begin + size, [](std::uint8_t octet) { return octet == kPoison; }))
      return;
    std::fputs("memory was written to after it was freed\n", stderr);
    std::abort();
  }
}

}  // namespace meshdns::dnsd
