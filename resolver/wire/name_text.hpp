// SPDX-License-Identifier: Apache-2.0
// Names in wire form (length-counted labels, root octet last) and as people write them (RFC 1035,
// section 5.1; RFC 4343, section 2.1).
#pragma once

#include <string>
#include <string_view>

#include "registry/base/result.hpp"

namespace meshdns::wire {

// "www.example.org.", the root as "."; a dot or backslash inside a label is `\.` `\\`, what is not
// printable ASCII `\DDD`, and so are the quote, semicolon, at sign, dollar and parentheses that
// mean something in a zone file escaped.  Safe for logs whatever the octets.  A malformed name is
// given up to the fault, followed by "<malformed>".
std::string name_to_text(std::string_view wire);

// The wire form of a name as text, final dot optional, case kept, escapes read.  An Error says what
// is wrong with the text: an empty or too long label, over 255 octets, a bad escape.
Result<std::string> name_from_text(std::string_view text);

// A registry name: canonical text without escapes.  Empty for text that is no name.
std::string wire_from_host(std::string_view host);

// Lower-case text without the final dot, as QueryMessage::qname gives it.  REQUIRES: `wire` is a
// name in wire form.  False when a label contains a dot or a NUL, so that the text would lie.
bool host_from_wire(std::string_view wire, std::string& host);

// Returns whether `wire` is exactly one name without compression.
bool is_wire_name(std::string_view wire);

}  // namespace meshdns::wire
