// SPDX-License-Identifier: Apache-2.0
// Big-endian numbers in octets.  No bounds are checked here: callers have done so.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace meshdns::wire {

inline std::uint16_t load_u16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, 2);
  return std::endian::native == std::endian::little ? __builtin_bswap16(value) : value;
}
inline std::uint32_t load_u32(const std::uint8_t* at) {
  std::uint32_t value;
  std::memcpy(&value, at, 4);
  return std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
}
inline void store_u16(std::uint8_t* at, std::uint16_t value) {
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap16(value);
  std::memcpy(at, &value, 2);
}
inline void store_u32(std::uint8_t* at, std::uint32_t value) {
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap32(value);
  std::memcpy(at, &value, 4);
}

}  // namespace meshdns::wire
