// SPDX-License-Identifier: Apache-2.0
// The words of a line, as resolv.conf(5) and hosts(5) part them.
#pragma once

#include <algorithm>
#include <string_view>

namespace meshdns::dnsd {

// Takes the next word of `line`; empty at its end.
inline std::string_view take_word(std::string_view& line) {
  constexpr std::string_view blank = " \t\r\v\f";
  line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blank));
  line.remove_prefix(word.size());
  return word;
}

}  // namespace meshdns::dnsd
