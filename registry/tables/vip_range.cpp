// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/vip_range.hpp"

#include <algorithm>
#include <array>

namespace meshdns::registry {
namespace {

// More slots than any mesh has hosts; keeps a /8 from costing memory.
constexpr std::uint32_t kMaxCapacity = 1U << 24;

// Addresses between the network's own and its last.
std::uint32_t capacity_of(const IpPrefix& prefix) {
  const unsigned bits = prefix.address.is_v4() ? 32 : 128;
  const unsigned host_bits = bits - std::min<unsigned>(prefix.length, bits);
  if (host_bits < 2) return 0;
  if (host_bits > 24) return kMaxCapacity;
  return (1U << host_bits) - 2;
}

}  // namespace

VipRange::VipRange(const IpPrefix& v4, const IpPrefix& v6)
    : v4_(v4.network()), v6_(v6.network()), capacity_(std::min(capacity_of(v4), capacity_of(v6))) {}

IpAddress VipRange::address_of(const IpPrefix& network, std::uint32_t slot) {
  // The capacity keeps slot + 1 within the host bits, which are zero.
  std::array<std::uint8_t, 16> octets = network.address.octets();
  const std::uint32_t value = slot + 1;
  for (std::size_t i = 0; i < 4; ++i) octets[15 - i] |= static_cast<std::uint8_t>(value >> (8 * i));
  return IpAddress::v6(octets);
}

std::optional<std::uint32_t> VipRange::slot_of(const IpAddress& address) const {
  const IpPrefix& network = address.is_v4() ? v4_ : v6_;
  if (!network.contains(address)) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto host = static_cast<std::uint8_t>(address.octets()[i] ^ network.address.octets()[i]);
    if (value >> 32 != 0) return std::nullopt;
    value = value << 8 | host;
  }
  if (value == 0 || value > capacity_) return std::nullopt;
  return static_cast<std::uint32_t>(value - 1);
}

}  // namespace meshdns::registry
