// SPDX-License-Identifier: Apache-2.0
// Returns the part of an upstream's text that clients may read.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::dnsd {

// Returns the text of an extended error (RFC 8914) as clients get it: at most 255 octets of whole
// characters, control characters replaced by spaces, and "[address]" in place of every IP address,
// since clients need not know where the upstreams are.  Empty when `text` is not valid UTF-8
// (RFC 8914, section 2): whoever sends that sends no text.
std::string relayed_text(std::string_view text);

}  // namespace meshdns::dnsd
