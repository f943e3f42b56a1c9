// SPDX-License-Identifier: Apache-2.0
// The texts of enumerators.
#pragma once

#include <cstddef>
#include <string_view>

namespace meshdns {

// Returns the text of an enumerator.  `texts`: those of all, from that of the value 0 to that of
// `Last`, the last enumerator: one text too few or too many does not compile.
template <auto Last, std::size_t N>
constexpr std::string_view enum_text(decltype(Last) value, const std::string_view (&texts)[N]) {
  static_assert(N == static_cast<std::size_t>(Last) + 1);
  const auto index = static_cast<std::size_t>(value);
  return index < N ? texts[index] : std::string_view();
}

}  // namespace meshdns
