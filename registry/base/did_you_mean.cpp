// SPDX-License-Identifier: Apache-2.0
#include "registry/base/did_you_mean.hpp"

#include <numeric>
#include <vector>

#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row before `row`
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  const auto is_same = [](char x, char y) { return to_lower(x) == to_lower(y); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = row[j] + (is_same(a[i], b[j]) ? 0 : 1);
      next[j + 1] = std::min({changed, row[j + 1] + 1, next[j] + 1});
      const bool is_swap = i > 0 && j > 0 && is_same(a[i], b[j - 1]) && is_same(a[i - 1], b[j]);
      if (is_swap) next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const auto guess = nearest_word(word, known);
  return guess ? "; did you mean " + registry::in_quotes(*guess) + "?" : std::string();
}

}  // namespace meshdns
