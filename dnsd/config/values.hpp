// The notations of single values in the configuration.  Pure functions; the Error is a sentence
// without place or key, which the caller knows.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// "500ms", "2s", "5m", "1h", "1h30m"; "0" needs no unit, everything else does.  At most 10 years.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
// The shortest text that parse_duration reads back as the same value: "1h", "1500ms", "0s".
std::string format_duration(std::chrono::milliseconds duration);

// "64MiB", "512KiB", "1GiB", or plain octets.  At most 1 TiB.
Result<std::uint64_t> parse_size(std::string_view text);
std::string format_size(std::uint64_t octets);

// Decimal digits only; no sign, no leading zeros' octal.
Result<std::uint64_t> parse_unsigned(std::string_view text);

// A number between 0 and 1, decimal.
Result<double> parse_share(std::string_view text);

// A zone for `upstream.zones` and `mesh.reverse_zones`: a zone name (returned canonical, "." as the
// root is "") or a prefix on a label boundary ("10.0.0.0/8", "2001:db8::/32"), which becomes its
// reverse zone ("10.in-addr.arpa").
Result<std::string> parse_zone(std::string_view text);

// A host or domain name: returned canonical.  Underscores are accepted (RFC 2181, section 11).
Result<std::string> parse_domain(std::string_view text);

}  // namespace meshdns::dnsd
