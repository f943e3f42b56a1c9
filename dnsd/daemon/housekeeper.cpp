// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/housekeeper.hpp"

#include <uv.h>

#include <string>
#include <utility>

namespace meshdns::dnsd {

void Housekeeper::tick(Time now) {
  parts_.mesh.publisher.collect();
  start_memory_.tick();
  parts_.log.write_fold_counts();
  parts_.kept.tick(now);
  parts_.mesh.analysis.tick(now);
  parts_.mesh.answers.tick();
  tell_of_overload(now);
  parts_.workers.tell_of_limited_clients();
  tell_of_admin_clients(parts_.admin, admin_counts_);
  tell_of_admin_clients(parts_.metrics, metrics_counts_);
  keep_history(now);
}

void Housekeeper::tell_of_overload(Time now) {
  const auto degradations =
      degradations_of(parts_.workers, parts_.query_logging, parts_.forwarding.cache, parts_.log);
  for (const auto& warning : overload_.observe(degradations, now))
    parts_.log.warn(warning.what, {{"count", warning.count}});
}

void Housekeeper::tell_of_admin_clients(const AdminEndpoint& endpoint, AdminCounts& counts) {
  const HttpCounters& counters = endpoint.counters();
  const AdminCounts now{counters.accept_failures, counters.overdue, counters.evicted,
                        counters.denied};
  const AdminCounts before = std::exchange(counts, now);
  const std::string key = std::string(endpoint.key()) + ": ";
  Log& log = parts_.log;
  if (now.accept_failures != before.accept_failures)
    log.write_folded(LogLevel::Warn,
                     key + "cannot accept a connection for lack of file descriptors or memory");
  if (now.overdue != before.overdue)
    log.write_folded(LogLevel::Warn, key + "closed a connection that took too long");
  if (now.evicted != before.evicted)
    log.write_folded(LogLevel::Warn, key + "too many connections; closed the oldest one");
  if (now.denied != before.denied)
    log.write_folded(LogLevel::Warn, key + "refused a wrong user name or password");
}

// Updates the figures of the last minutes on the status page.
void Housekeeper::keep_history(Time now) {
  load_.observe(parts_.workers.totals(), now);
  const auto upstreams = [this] {
    return parts_.forwarding.upstreams.status(uv_hrtime() / 1'000'000);
  };
  if (latency_.is_due(now)) latency_.observe(upstreams(), now);
  if (upstreams_.is_due(now)) upstreams_.observe(upstreams(), now);
  parts_.sources.note_changes(now);
  if (--seconds_to_fade_ > 0) return;
  seconds_to_fade_ = kFadeSeconds;
  parts_.workers.fade_failing_names();
}

}  // namespace meshdns::dnsd
