// SPDX-License-Identifier: Apache-2.0
// Checks text from outside, and makes it safe to show: it cannot start a line, move a cursor or
// look like another field.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace meshdns {

// Returns `text` with all characters but the unreserved ones of RFC 3986, section 2.3, as %XX: safe
// in any part of a URL.
std::string percent_encoded(std::string_view text);

}  // namespace meshdns

namespace meshdns::registry {

// For messages.  Replaces control octets and those outside ASCII by \DDD (decimal, as in RFC 1035,
// section 5.1), and cuts the text behind `max` octets.  A backslash stays, so that a text that
// quotes a printable() text can be made printable again.
std::string printable(std::string_view text, std::size_t max = 100);
// printable() between double quotes.
std::string in_quotes(std::string_view text, std::size_t max = 100);

// For values.  Replaces the backslash, too, so that the result can be turned back.
std::string escape(std::string_view text);

// For formats that must be UTF-8 and escape by themselves: JSON, HTML, metrics.  Returns `text`; if
// it is not UTF-8, with its octets outside ASCII as \DDD.
std::string as_utf8(std::string_view text);

// Returns whether all of `text` is valid UTF-8 (RFC 3629, section 4).
bool is_utf8(std::string_view text);

struct UnreadableByte {
  std::size_t offset = 0;
  std::string_view reason;
};

// The first place where `text` is not UTF-8, or has a control character that YAML does not allow in
// a file (YAML 1.2, section 5.1); nullopt if there is none.
std::optional<UnreadableByte> find_unreadable(std::string_view text);

}  // namespace meshdns::registry

namespace meshdns::dnsd {

using registry::in_quotes;

}  // namespace meshdns::dnsd
