// SPDX-License-Identifier: Apache-2.0
// Limits per client count networks, not addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "registry/base/ip_address.hpp"

namespace meshdns {

// Returns the address under which limits per client count `client`: an IPv4 address itself, of an
// IPv6 address its /64.  One host can send from every address of its /64 (RFC 7217, RFC 8981), so
// that a limit per address would be none.
constexpr IpAddress limit_key_of(const IpAddress& client) {
  if (client.is_v4()) return client;
  constexpr std::size_t kNetworkOctets = 8;
  std::array<std::uint8_t, 16> network{};
  for (std::size_t i = 0; i < kNetworkOctets; ++i) network[i] = client.octets()[i];
  return IpAddress::v6(network);
}

}  // namespace meshdns
