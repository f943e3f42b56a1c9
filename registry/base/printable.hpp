// SPDX-License-Identifier: Apache-2.0
// Text of others, made fit for one line of a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshdns::registry {

// Control octets and those outside ASCII as \DDD, cut behind `max` octets of the text.  What is
// printable stays as it is, a backslash, too: to do it twice does no harm.
std::string printable(std::string_view text, std::size_t max = 100);
// The same between double quotes.
std::string quoted(std::string_view text, std::size_t max = 100);

}  // namespace meshdns::registry
