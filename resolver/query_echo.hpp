// SPDX-License-Identifier: Apache-2.0
// Compares a reply with the query that it answers.  A forger who does not see the query cannot
// repeat its ID and the case of its name.
#pragma once

#include <cstdint>
#include <span>

namespace meshdns::resolver {

enum class Echo : std::uint8_t { Exact, OtherCase, None };

// Compares ID and question.  `reply` is any datagram.  REQUIRES: `query` is a whole query of ours,
// with one question.
Echo echo_of(std::span<const std::uint8_t> reply, std::span<const std::uint8_t> query);

// Returns whether `reply` refuses the query as malformed.  Servers that do not know EDNS do so, and
// some leave the question out.  REQUIRES: as above.
bool is_format_error(std::span<const std::uint8_t> reply, std::span<const std::uint8_t> query);

}  // namespace meshdns::resolver
