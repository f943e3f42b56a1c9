// SPDX-License-Identifier: Apache-2.0
// Labels of objects.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace meshdns::registry {

// Sorted by key, keys unique.
using Labels = std::vector<std::pair<std::string, std::string>>;
// Whether every pair of `selector` is in `labels`; an empty selector matches everything.
bool selects(const Labels& selector, const Labels& labels);

}  // namespace meshdns::registry
