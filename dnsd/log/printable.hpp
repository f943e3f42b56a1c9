// SPDX-License-Identifier: Apache-2.0
// Text from outside, made safe to show.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::dnsd {

// `text` with every octet outside printable ASCII, and the backslash itself, as \DDD (decimal, as
// in RFC 1035, section 5.1): nothing a client or an upstream sends can start a line, move a cursor
// or look like another field.  Reversible.
std::string printable(std::string_view text);
// Appends the same to `out`.
void append_printable(std::string& out, std::string_view text);

}  // namespace meshdns::dnsd
