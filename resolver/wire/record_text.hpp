// SPDX-License-Identifier: Apache-2.0
// A record as a zone file has it, for people: explain, the admin pages, logs.
#pragma once

#include <string>

#include "resolver/wire/response_message.hpp"

namespace meshdns::wire {

// "www.example.org. 30 IN A 192.0.2.1", without a final newline.  Types whose rdata parse_response
// checked are written in their own form; all others as RFC 3597, section 5 has it ("\# 2 abcd"),
// because ldns writes the text and must not see rdata that nobody has checked.
// REQUIRES: the record comes from parse_response, or was built to the same rules.
std::string record_to_text(const ResponseRecord& record);

}  // namespace meshdns::wire
