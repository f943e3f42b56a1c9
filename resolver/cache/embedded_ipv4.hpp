// SPDX-License-Identifier: Apache-2.0
// IPv4 addresses inside of IPv6 ones.
#pragma once

#include <array>
#include <cstddef>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// The positions of the four bytes of an IPv4 address in an IPv6 address with a translation prefix
// of `length` bits (RFC 6052, section 2.2).  REQUIRES: 32, 40, 48, 56, 64 or 96.
std::array<std::size_t, 4> embedded_octets(unsigned length);

// The IPv4 address that `address` carries in these octets.
IpAddress embedded_ipv4(const IpAddress& address, const std::array<std::size_t, 4>& octets);

}  // namespace meshdns::dnsd
