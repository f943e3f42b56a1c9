// SPDX-License-Identifier: Apache-2.0
// The page /top as a table for a terminal.
#pragma once

#include <string>

namespace meshdns::dnsd {

// A list for each member that is not empty.  Text that is not the expected JSON gives no lines.
std::string top_text(const std::string& page);

}  // namespace meshdns::dnsd
