// SPDX-License-Identifier: Apache-2.0
// Names of addresses in the reverse zones: a label for each octet in decimal under in-addr.arpa
// (RFC 1035, section 3.5), and for each four bits in hexadecimal under ip6.arpa (RFC 3596, section
// 2.5).
#pragma once

#include <cstddef>
#include <string>

#include "registry/base/ip_address.hpp"

namespace meshdns {

// Number of bits of a label: 8 or 4.
unsigned bits_of_reverse_label(const IpAddress& address);
// Of the label for bits of the address, counted from its front.
unsigned reverse_label_value(const IpAddress& address, std::size_t index);
// The label of that value in the address's family: "10", or "f".
std::string reverse_label(const IpAddress& address, unsigned value);

// Of the first `labels` labels: "4.10.in-addr.arpa" of two; the root of the tree of none.
std::string reverse_name(const IpAddress& address, std::size_t labels);
// Of the whole address.
std::string reverse_name(const IpAddress& address);

// The prefixes of IPv6 addresses, in nibbles, whose names the registry counts in the declared
// reverse zones: all of the first 64 bits, then every third, so that a name between two of them has
// at most 256 counted names below it.
constexpr bool is_counted_prefix(std::size_t nibbles) {
  return nibbles <= 16 || (nibbles <= 30 && nibbles % 3 == 0);
}

}  // namespace meshdns
