// SPDX-License-Identifier: Apache-2.0
// Numbers of things in texts for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshdns::registry {

// "1 error", "2 errors", "0 entries".  `noun` is the singular, and its last word gets the plural of
// a regular English noun.
std::string counted(std::uint64_t number, std::string_view noun);

}  // namespace meshdns::registry

namespace meshdns::dnsd {

using registry::counted;

}  // namespace meshdns::dnsd
