// SPDX-License-Identifier: Apache-2.0
// One keyed hash for names and addresses.  The key is drawn at start, so that nobody who may write
// resources, send queries or answer them can aim at one bucket.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace meshdns {

namespace hash_detail {
// `mask` is secret, too: eight octets that are equal to a known one would make a product 0,
// whatever came before them.
struct Key {
  std::uint64_t seed;
  std::uint64_t mask;
};
extern const Key kKey;

inline std::uint64_t read64(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}
inline std::uint64_t read32(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using u128 = unsigned __int128;
  const u128 m = static_cast<u128>(a) * b;
  return static_cast<std::uint64_t>(m) ^ static_cast<std::uint64_t>(m >> 64);
}
}  // namespace hash_detail

// Multiply-and-fold over 16 octets a step (the construction of wyhash); about 5 ns for a host name.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  using namespace hash_detail;
  const std::uint64_t mask = kKey.mask;
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  std::uint64_t h = kKey.seed;
  while (n > 16) {
    h = mix(read64(p) ^ mask, read64(p + 8) ^ h);
    p += 16;
    n -= 16;
  }
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (n >= 8) {
    a = read64(p);
    b = read64(p + n - 8);
  } else if (n >= 4) {
    a = read32(p);
    b = read32(p + n - 4);
  } else if (n > 0) {
    a = static_cast<std::uint64_t>(static_cast<unsigned char>(p[0])) << 16 |
        static_cast<std::uint64_t>(static_cast<unsigned char>(p[n >> 1])) << 8 |
        static_cast<unsigned char>(p[n - 1]);
  }
  return mix(mask ^ bytes.size(), mix(a ^ mask, b ^ h));
}

// For the standard library's tables, whose own hash of text has no key.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return hash_bytes(text); }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;
using TextSet = std::unordered_set<std::string, TextHash, std::equal_to<>>;
// The text outlives the table.
template <typename Value>
using TextViewMap = std::unordered_map<std::string_view, Value, TextHash>;
using TextViewSet = std::unordered_set<std::string_view, TextHash>;

}  // namespace meshdns
