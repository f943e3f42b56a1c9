// SPDX-License-Identifier: Apache-2.0
// Names of addresses: in-addr.arpa and ip6.arpa (RFC 1035, section 3.5; RFC 3596, section 2.5).
//
// An address that the client may see under some name always answers.  Beyond that, the zones
// declared in mesh.reverse_zones are denied here; every other reverse name is the upstream's, but
// for the locally served ones (locally_served.hpp).
#pragma once

#include <optional>
#include <string_view>

#include "dnsd/answer/decision.hpp"

namespace meshdns::dnsd {

// Returns whether the name is at or below in-addr.arpa or ip6.arpa.
bool is_reverse_name(std::string_view name);

// The labels of a reverse name as an address, in full or the front part of one.
struct ReverseAddress {
  IpAddress address;     // the missing rest is zero
  unsigned missing = 0;  // octets (IPv4) or nibbles (IPv6); 0 = a whole address
};
// nullopt: not of that form (leading zeros, values over 255, too many labels).
std::optional<ReverseAddress> parse_reverse_name(std::string_view name);

// The longest of mesh.reverse_zones that `name` is at or below; empty = none.
std::string_view reverse_zone_of(const registry::View& view, std::string_view name);

// Returns whether the client may see an address whose reverse name lies below `name`, or that would
// take too long to find out.  REQUIRES: is_reverse_name(name).
bool has_known_address_below(const registry::View& view, std::string_view name);

// NxDomain where the name is none of ours and lies in no declared zone, too: the caller decides who
// is the authority.  REQUIRES: is_reverse_name(asked.name).  Allocates.
Decision decide_reverse(const registry::View& view, const Asked& asked);

}  // namespace meshdns::dnsd
