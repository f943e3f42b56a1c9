// SPDX-License-Identifier: Apache-2.0
// Log lines of the loader on stderr, in the form of the daemon's: `TIME LEVEL message key=value
// ...`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace meshdns::kernel {

enum class Level : std::uint8_t { Info, Warning, Error };

struct Field {
  std::string_view key;
  std::string value;
};

// Writes one line.  Any value is safe.  If stderr is the journal's, the line has a priority in
// place of the time and the level.
void log(Level level, std::string_view message, std::initializer_list<Field> fields = {});

}  // namespace meshdns::kernel
