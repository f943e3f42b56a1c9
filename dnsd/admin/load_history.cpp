// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/load_history.hpp"

#include <uv.h>

#include <numeric>
#include <utility>

namespace meshdns::dnsd {

void UpstreamHistory::observe(const std::vector<UpstreamStatus>& upstreams, Time now) {
  const double seconds = std::chrono::duration<double>(now - std::exchange(observed_, now)).count();
  auto before = std::exchange(servers_, {});
  for (const UpstreamStatus& upstream : upstreams) {
    const std::uint64_t replies = upstream.answers + upstream.other_rcodes;
    const std::uint64_t failures = upstream.timeouts + upstream.unreachable + upstream.malformed +
                                   upstream.servfail + upstream.refused;
    const auto known = before.find(upstream.name);
    Server& server = servers_[upstream.name];
    // A server that was away for a while counts from 0 again.
    if (known != before.end() && replies >= known->second.replies &&
        failures >= known->second.failures) {
      server = std::move(known->second);
      server.points.push_back({static_cast<double>(replies - server.replies) / seconds,
                               static_cast<double>(failures - server.failures) / seconds});
      if (server.points.size() > kPoints) server.points.pop_front();
    }
    server.replies = replies;
    server.failures = failures;
  }
}

const std::deque<UpstreamHistory::Point>& UpstreamHistory::points(const std::string& name) const {
  static const std::deque<Point> kNone;
  const auto found = servers_.find(name);
  return found == servers_.end() ? kNone : found->second.points;
}

void LatencyWindow::observe(const std::vector<UpstreamStatus>& upstreams, Time now) {
  older_ = std::exchange(newer_, {});
  for (const auto& upstream : upstreams) newer_[upstream.name] = upstream.latency;
  observed_ = now;
}

// The counters of a server that a reload removed and another one added again begin at 0.
LatencyWindow::Buckets LatencyWindow::recent(const UpstreamStatus& upstream) const {
  Buckets recent = upstream.latency;
  const auto before = older_.find(upstream.name);
  if (before == older_.end()) return recent;
  for (std::size_t i = 0; i < recent.size(); ++i) {
    if (before->second[i] > recent[i]) return upstream.latency;
    recent[i] -= before->second[i];
  }
  return recent;
}

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

void History::observe(const LoadHistory::Totals& totals, const UpstreamStates& states,
                      LoadHistory::Time now) {
  load.observe(totals, now);
  if (!latency.is_due(now) && !upstreams.is_due(now)) return;
  const auto statuses = states.status(uv_hrtime() / 1'000'000);
  if (latency.is_due(now)) latency.observe(statuses, now);
  if (upstreams.is_due(now)) upstreams.observe(statuses, now);
}

}  // namespace meshdns::dnsd
