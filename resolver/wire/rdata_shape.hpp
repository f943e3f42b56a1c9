// SPDX-License-Identifier: Apache-2.0
// The format of names and record data in a message: the part of the parser that all records use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "resolver/wire/types.hpp"

namespace meshdns::wire {

// Appends the name at `at`, expanded, to `out` and moves `at` behind it.  `end`: where the name's
// own octets must stop.  False: malformed.  Each pointer must point before everything that was read
// of the name so far (RFC 1035, section 4.1.4: "a prior occurrence"), so that no loop exists.
bool read_name(std::span<const std::uint8_t> message, std::size_t& at, std::size_t end,
               std::string& out);

// The fields of the rdata of `type`, one letter each: 'n' a name, 's' a character-string, 'S' one
// or more of them, a digit that many octets; together they use up the rdata.  nullptr: opaque.
const char* rdata_shape(Type type, Class rclass);

// Appends the rdata that lies at [at, end) to `out`, its names expanded.  False: not of that shape.
bool read_rdata(std::span<const std::uint8_t> message, std::size_t at, std::size_t end,
                const char* shape, std::string& out);

// Returns whether the shape of `type` is known and `rdata`, free of compression, is of that shape.
bool has_known_shape(Type type, Class rclass, std::string_view rdata);

}  // namespace meshdns::wire
