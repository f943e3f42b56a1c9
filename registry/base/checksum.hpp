// SPDX-License-Identifier: Apache-2.0
// Numbers that are the same in every process and on every machine: the checksum of saved files, and
// hashes that other processes compare.  For hash tables see hash_bytes() in registry/base/hash.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace meshdns {

// Returns the CRC-32 (of zlib and gzip) of `octets`, continued from the CRC-32 of what comes before
// them.  Detects damage, not forgery.
std::uint32_t checksum(std::span<const std::uint8_t> octets, std::uint32_t before = 0);
std::uint32_t checksum(std::string_view text, std::uint32_t before = 0);

// FNV-1a with 64 bits.  Anybody can construct two texts with one hash.
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// FNV-1a with 32 bits, as Istio uses it.
constexpr std::uint32_t stable_hash32(std::string_view text) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return hash;
}

}  // namespace meshdns
