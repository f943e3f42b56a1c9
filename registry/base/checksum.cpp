// SPDX-License-Identifier: Apache-2.0
#include "registry/base/checksum.hpp"

#include <zlib.h>

namespace meshdns {

std::uint32_t checksum(std::span<const std::uint8_t> octets, std::uint32_t before) {
  if (octets.empty()) return before;  // for a null pointer zlib begins anew
  return static_cast<std::uint32_t>(crc32_z(before, octets.data(), octets.size()));
}

std::uint32_t checksum(std::string_view text, std::uint32_t before) {
  return checksum({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, before);
}

}  // namespace meshdns
