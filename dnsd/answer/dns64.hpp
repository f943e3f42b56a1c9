// SPDX-License-Identifier: Apache-2.0
// DNS64 (RFC 6147): IPv6 addresses for names with IPv4 addresses only, so that clients without IPv4
// reach them through a NAT64.  For forwarded names only, not for names of the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/ip_address.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {

// RFC 6052, section 2.2.  REQUIRES: `prefix` is IPv6 of 32, 40, 48, 56, 64 or 96 bits, `address`
// is IPv4.
IpAddress translate(const IpPrefix& prefix, const IpAddress& address);
// Returns whether `address` may stand below `prefix`: the well-known prefix 64:ff9b::/96 must not
// stand for addresses that are not global (RFC 6052, section 3.1).
bool may_translate(const IpPrefix& prefix, const IpAddress& address);
// The IPv4 address within; nullopt: not below `prefix`.
std::optional<IpAddress> translate_back(const IpPrefix& prefix, const IpAddress& address);

// Returns whether the client leaves translation to us (RFC 6147, section 5.5: one that validates
// does not).
bool wants_translation(const wire::QueryMessage& query);

// Returns whether this answer to AAAA has no address to use, so that those of IPv4 are asked for
// (section 5.1): no data, nothing but IPv4-mapped addresses, or an rcode other than NXDOMAIN.  A
// failure to reach any upstream is not tried twice.
bool lacks_ipv6(const CachedMessage& message);
// The TTL of translated records (section 5.1.7).
std::uint32_t translated_ttl(const CachedMessage& denial, Millis now);

// Returns whether a record of an answer to A has no place in one to AAAA: the signature of what is
// translated.  `rdata`: the record's.
bool is_signature_of_a(wire::Type type, std::string_view rdata);

// The in-addr.arpa name that the reverse name of a translated address stands for (section 5.3.1);
// empty: it is none.
std::string translated_pointer(const IpPrefix& prefix, std::string_view name);
// Returns whether the name is such a reverse name, or one above some.
bool is_translated_or_above(const IpPrefix& prefix, std::string_view name);

}  // namespace meshdns::dnsd
