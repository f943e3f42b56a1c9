// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/load_history.hpp"

#include <numeric>

namespace meshdns::dnsd {

double quantile_ms(const std::array<std::uint64_t, QueryCounters::kDurationBuckets>& buckets,
                   double share) {
  const auto total = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  if (total == 0) return 0;
  const double wanted = share * static_cast<double>(total);
  double below = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const double lower = i == 0 ? 0 : QueryCounters::duration_limit(i - 1);
    if (i + 1 == buckets.size()) return 1e3 * lower;
    const auto count = static_cast<double>(buckets[i]);
    if (below + count >= wanted && count > 0) {
      const double upper = QueryCounters::duration_limit(i);
      return 1e3 * (lower + (upper - lower) * (wanted - below) / count);
    }
    below += count;
  }
  return 0;
}

void LoadHistory::observe(const Totals& totals, Time now) {
  const double seconds = std::chrono::duration<double>(now - observed_).count();
  if (has_begun_ && seconds > 0) {
    Totals between;
    for (std::size_t i = 0; i < totals.duration.size(); ++i)
      between.duration[i] = totals.duration[i] - last_.duration[i];
    points_.push_back({static_cast<double>(totals.responses - last_.responses) / seconds,
                       static_cast<double>(totals.failures - last_.failures) / seconds,
                       quantile_ms(between.duration, 0.5), quantile_ms(between.duration, 0.99)});
    if (points_.size() > kPoints) points_.pop_front();
  }
  has_begun_ = true;
  last_ = totals;
  observed_ = now;
}

}  // namespace meshdns::dnsd
