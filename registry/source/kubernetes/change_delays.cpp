// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/change_delays.hpp"

#include <algorithm>

namespace meshdns::registry::kubernetes {
namespace {

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ChangeDelays::note_arrival(std::int64_t trigger_time_ms) {
  arrivals_.push_back({std::chrono::steady_clock::now(), trigger_time_ms});
}

void ChangeDelays::note_applied(const std::vector<Arrival>& arrivals) {
  const auto applied = std::chrono::steady_clock::now();
  const std::int64_t applied_unix_ms = arrivals.empty() ? 0 : unix_ms();
  for (const Arrival& arrival : arrivals) {
    from_arrival_.observe(std::chrono::duration<double>(applied - arrival.at).count());
    if (arrival.trigger_time_ms != 0)
      // Two clocks, of which either may be wrong or set anew.
      from_trigger_.observe(1e-3 * static_cast<double>(std::max<std::int64_t>(
                                       applied_unix_ms - arrival.trigger_time_ms, 0)));
  }
}

}  // namespace meshdns::registry::kubernetes
