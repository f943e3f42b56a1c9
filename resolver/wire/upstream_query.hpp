// SPDX-License-Identifier: Apache-2.0
// Builds a query to an upstream from its parts.  Bytes of a client's message are never copied, so
// that no option or record of a client reaches the upstream.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "resolver/wire/types.hpp"

namespace meshdns::wire {

// Octets that any query built here fits into.
inline constexpr std::size_t kMaxQuerySize = 512;

struct UpstreamQuery {
  std::uint16_t id = 0;
  std::string_view name = {};  // wire form without compression; spelled as it shall be sent (0x20)
  Type type = Type::A;
  Class qclass = Class::In;
  bool recursion_desired = true;
  bool checking_disabled = false;
  bool authentic_data = false;  // RFC 6840, section 5.7: asks for AD in the reply

  // The OPT record (RFC 6891) and what it says.
  bool edns = true;
  std::uint16_t udp_payload = kMaxUdpPayload;
  bool dnssec_ok = false;
  std::string_view cookie = {};  // RFC 7873: 8 octets, or 16 to 40; empty = none
  bool keepalive = false;        // RFC 7828: on stream transports only
};

// Writes the query and returns its size; 0 when `buffer` is too small (kMaxQuerySize never is) or
// the cookie has a length that no cookie has.  REQUIRES: `name` is a name in wire form.
std::size_t build_query(std::span<std::uint8_t> buffer, const UpstreamQuery& query);

}  // namespace meshdns::wire
