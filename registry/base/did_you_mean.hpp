// SPDX-License-Identifier: Apache-2.0
// The end of a message about a word that is not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace meshdns {

// `; did you mean "x"?` when one of the words is near (nearest_word), else nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace meshdns
