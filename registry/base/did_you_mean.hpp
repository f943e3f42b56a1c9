// SPDX-License-Identifier: Apache-2.0
// Words that a typing error may have turned into one that is not known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshdns {

// The edits that may lie between a word of so many letters and the one that was meant: a wrong
// guess is worse than none.
constexpr std::size_t max_typing_errors(std::size_t letters) {
  return letters < 3 ? 0 : letters < 8 ? 1 : 2;
}

// The one of `known` that a typing error has turned into `word`; nullopt when none is near enough
// (max_typing_errors), or when two are equally near.  Letters' case is no difference.  A word that
// is longer than all of `known` costs no more than its size.
template <typename Range>
std::optional<std::string> nearest_word(std::string_view word, const Range& known);
// The number of letters that are inserted, left out, changed, or swapped with the next one.
std::size_t edit_distance(std::string_view a, std::string_view b);

template <typename Range>
std::optional<std::string> nearest_word(std::string_view word, const Range& known) {
  const std::size_t max_distance = max_typing_errors(word.size());
  std::optional<std::string> best;
  std::size_t best_distance = max_distance + 1;
  for (const std::string_view candidate : known) {
    if (std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size()) >
        max_distance)
      continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > best_distance || distance > max_distance) continue;
    const bool is_tie = distance == best_distance;
    best_distance = distance;
    best = is_tie ? std::nullopt : std::optional<std::string>(candidate);
  }
  return best;
}

// The end of a message: `; did you mean "x"?` when one of the words is near (nearest_word), else
// nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace meshdns
