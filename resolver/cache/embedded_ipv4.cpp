// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/embedded_ipv4.hpp"

#include <cstdint>

namespace meshdns::dnsd {

std::array<std::size_t, 4> embedded_octets(unsigned length) {
  // Octet 8 stays zero.
  constexpr std::size_t kUnusedOctet = 8;
  std::array<std::size_t, 4> octets;
  std::size_t next = length / 8U;
  for (std::size_t& octet : octets) {
    if (next == kUnusedOctet) ++next;
    octet = next++;
  }
  return octets;
}

IpAddress embedded_ipv4(const IpAddress& address, const std::array<std::size_t, 4>& octets) {
  std::array<std::uint8_t, 4> v4;
  for (std::size_t i = 0; i < v4.size(); ++i) v4[i] = address.octets()[octets[i]];
  return IpAddress::v4(v4);
}

}  // namespace meshdns::dnsd
