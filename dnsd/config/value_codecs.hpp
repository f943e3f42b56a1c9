// SPDX-License-Identifier: Apache-2.0
// The values that several sections of the configuration have: their forms, ranges and errors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd::schema {

constexpr std::uint32_t kMaxTtl = 7 * 24 * 3600;  // RFC 8767, section 4: a week is plenty

Codec<std::chrono::milliseconds> duration(std::chrono::milliseconds min,
                                          std::chrono::milliseconds max);
// Durations of whole seconds, from 0.
Codec<std::chrono::seconds> whole_seconds(std::chrono::seconds max);

Codec<IpAddress> address();
Codec<IpPrefix> prefix();
// A prefix without host bits, of `v4` or IPv6, whose addresses may be given to hosts.
Codec<IpPrefix> vip_prefix(bool v4, unsigned min_length, unsigned max_length);

Codec<std::string> domain();
// Domains without duplicates; `root_allowed`: "." is one.
Codec<std::vector<std::string>> zone_list(bool root_allowed);
Codec<std::string> namespace_name();
Codec<std::string> namespace_or_all();
Codec<registry::ExportTo> export_to();

// A mapping of texts of at most `max_text` characters.
Codec<registry::Labels> text_map(std::size_t max_text);
Codec<registry::Labels> labels();

}  // namespace meshdns::dnsd::schema
