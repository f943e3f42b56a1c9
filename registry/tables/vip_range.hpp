// SPDX-License-Identifier: Apache-2.0
// The addresses from which VIPs are taken: a prefix of each family, counted in slots.  Slot 0 is
// the first address after the network's own; a slot means one address of each family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

// An immutable value; any thread.
class VipRange {
 public:
  // Host bits of the prefixes are ignored.  REQUIRES: an IPv4 and an IPv6 prefix.
  VipRange(const IpPrefix& v4, const IpPrefix& v6);

  // How many slots have an address in both prefixes.  The first and the last address of a prefix
  // are never given out, so /31, /32, /127 and /128 have no slot.  At most 2^24.
  std::uint32_t capacity() const { return capacity_; }
  // REQUIRES: `slot` is below the capacity.
  IpAddress v4_of(std::uint32_t slot) const { return address_of(v4_, slot); }
  IpAddress v6_of(std::uint32_t slot) const { return address_of(v6_, slot); }
  // The slot of an address of either family; nullopt for one that is never given out.
  std::optional<std::uint32_t> slot_of(const IpAddress& address) const;

  // "240.240.0.0/16 2001:2::/48", without host bits.
  std::string to_string() const { return v4_.to_string() + " " + v6_.to_string(); }
  const IpPrefix& v4() const { return v4_; }
  const IpPrefix& v6() const { return v6_; }
  friend bool operator==(const VipRange&, const VipRange&) = default;

 private:
  static IpAddress address_of(const IpPrefix& network, std::uint32_t slot);

  IpPrefix v4_;
  IpPrefix v6_;
  std::uint32_t capacity_;
};

}  // namespace meshdns::registry
