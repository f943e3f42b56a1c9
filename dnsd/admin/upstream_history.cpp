// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/upstream_history.hpp"

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

}  // namespace meshdns::dnsd
