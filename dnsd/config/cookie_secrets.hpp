// SPDX-License-Identifier: Apache-2.0
// The secrets that server cookies are made with (RFC 7873, section 6), and the file in which
// several servers share them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

using CookieSecret = std::array<std::uint8_t, 16>;

struct CookieSecrets {
  CookieSecret current;               // cookies are made with it
  std::optional<CookieSecret> other;  // accepted as well: the last one, or the next
  friend bool operator==(const CookieSecrets&, const CookieSecrets&) = default;
};

// One secret to a line, 32 hexadecimal digits, the current one first, another one or none behind
// it; "#" begins a comment.  The Error ("LINE: reason") repeats nothing of the text.
Result<CookieSecrets> parse_cookie_secrets(std::string_view text);

// As above; the Error begins with `path`.
Result<CookieSecrets> read_cookie_secrets(const std::string& path);

}  // namespace meshdns::dnsd
