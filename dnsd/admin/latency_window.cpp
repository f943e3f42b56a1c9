// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/latency_window.hpp"

#include <utility>

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
