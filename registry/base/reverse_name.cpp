// SPDX-License-Identifier: Apache-2.0
#include "registry/base/reverse_name.hpp"

namespace meshdns {

unsigned bits_of_reverse_label(const IpAddress& address) { return address.is_v4() ? 8 : 4; }

unsigned reverse_label_value(const IpAddress& address, std::size_t index) {
  if (address.is_v4()) return address.octets()[12 + index];
  const unsigned octet = address.octets()[index / 2];
  return index % 2 == 0 ? octet >> 4 : octet & 0xf;
}

std::string reverse_label(const IpAddress& address, unsigned value) {
  return address.is_v4() ? std::to_string(value) : std::string(1, "0123456789abcdef"[value]);
}

std::string reverse_name(const IpAddress& address, std::size_t labels) {
  std::string name;
  for (std::size_t i = labels; i-- > 0;)
    name += reverse_label(address, reverse_label_value(address, i)) + ".";
  return name += address.is_v4() ? "in-addr.arpa" : "ip6.arpa";
}

std::string reverse_name(const IpAddress& address) {
  return reverse_name(address, address.is_v4() ? 4 : 32);
}

}  // namespace meshdns
