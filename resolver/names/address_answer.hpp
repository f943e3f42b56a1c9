// SPDX-License-Identifier: Apache-2.0
// Reads the addresses out of a DNS message, and nothing else.  It may be a server's, who may send
// anything: wire::parse_response checks the whole message first.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "resolver/names/lookup.hpp"

namespace meshdns::resolver {

// Reads the addresses of `host` (canonical) in `family` from `message`.  Follows the CNAME chain
// from the question's name through the answer section, in any order of the records; ignores records
// that are not on the chain (RFC 2181, section 5.4.1).  TTLs with the top bit set count as 0 (RFC
// 2181, section 8); the chain's TTL is its least.  At most 256 addresses and 16 aliases are taken.
// Negative answers take their TTL from the SOA (RFC 2308, section 5).  Anything that does not
// parse, is no response to this question, or has another rcode than NOERROR or NXDOMAIN is
// Status::Failed with the reason, and the message's own (RFC 8914).
Answer read_address_answer(std::span<const std::uint8_t> message, std::string_view host,
                           Family family);

}  // namespace meshdns::resolver
