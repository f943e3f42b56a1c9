// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace meshdns {

// Returns `text` with all characters but the unreserved ones of RFC 3986, section 2.3, as %XX: safe
// in any part of a URL.
std::string percent_encoded(std::string_view text);

}  // namespace meshdns
