// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

namespace meshdns {

// Sorts the values by their projection, and removes those whose projection is that of one before
// them.
template <typename T, typename Projection = std::identity>
void sort_each_once(std::vector<T>& values, const Projection& projection = {}) {
  std::ranges::sort(values, {}, projection);
  const auto repeated = std::ranges::unique(values, {}, projection);
  values.erase(repeated.begin(), repeated.end());
}

}  // namespace meshdns
