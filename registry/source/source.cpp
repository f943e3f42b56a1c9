// SPDX-License-Identifier: Apache-2.0
#include "registry/source/source.hpp"

#include <algorithm>

namespace meshdns::registry {

void DelayHistogram::observe(double seconds) {
  seconds = std::max(seconds, 0.0);
  const auto limit = std::ranges::lower_bound(kLimits, seconds);
  ++counts[static_cast<std::size_t>(limit - kLimits.begin())];
  sum += seconds;
}

}  // namespace meshdns::registry
