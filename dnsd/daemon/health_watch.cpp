// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/health_watch.hpp"

#include <uv.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/daemon/troubles.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

std::string_view first_reason(const Readiness& readiness) {
  for (const auto* reasons : {&readiness.not_ready, &readiness.degraded})
    if (!reasons->empty()) return reasons->front();
  return {};
}

Readiness HealthWatch::readiness() const {
  Readiness readiness;
  auto& degraded = readiness.degraded;
  if (watched_.phase != Phase::Serving) readiness.not_ready.emplace_back("stopping");
  add_sources(readiness);
  if (watched_.mesh.registry.current()->sources.from_state_dir)
    degraded.emplace_back("snapshot: serving the state of state_dir");
  const KeptState& kept = watched_.kept;
  if (!kept.trouble().empty()) degraded.push_back(kept.trouble());
  if (!kept.vip_trouble().empty()) degraded.push_back("persistent VIPs: " + kept.vip_trouble());
  for (const auto& failure : watched_.addresses.unbound())
    degraded.push_back("not bound: " + failure);
  std::ranges::copy(watched_.reach.troubles(), std::back_inserter(degraded));
  if (std::string trouble = watched_.addresses.metrics_trouble(); !trouble.empty())
    degraded.push_back(std::move(trouble));
  if (const std::string& trouble = watched_.upgrade.trouble(); !trouble.empty())
    degraded.push_back(trouble);
  if (!watched_.reloader.status().ok)
    degraded.emplace_back("config: the last reload failed; the previous configuration is in use");
  degraded.insert(degraded.end(), troubles_.begin(), troubles_.end());
  return readiness;
}

void HealthWatch::add_sources(Readiness& readiness) const {
  const RegistryFeed& feed = watched_.mesh.feed;
  for (const auto& [status, changed] : watched_.sources.reports()) {
    if (feed.is_complete(status.name)) {
      if (!status.last_error.empty())
        readiness.degraded.push_back(status.name + ": " + status.last_error);
      continue;
    }
    auto& reasons = feed.is_known(status.name) ? readiness.degraded : readiness.not_ready;
    reasons.push_back(status.name + ": not read yet" +
                      (status.last_error.empty() ? "" : ": " + status.last_error));
  }
}

std::vector<std::string> HealthWatch::find_troubles() const {
  std::vector<std::string> troubles =
      file_troubles(watched_.config, watched_.reloader.path(), watched_.kept.path());
  if (const std::string trouble = watched_.kept.status().trouble; !trouble.empty())
    troubles.push_back("state_dir: the state was not saved: " + trouble);
  const auto upstreams = watched_.forwarding.upstreams.status(uv_hrtime() / 1'000'000);
  std::ranges::move(upstream_troubles(watched_.upstream.current(), upstreams),
                    std::back_inserter(troubles));
  if (std::string refused = refused_objects(watched_.mesh.feed.findings()); !refused.empty())
    troubles.push_back(std::move(refused));
  if (const std::string& trouble = watched_.kernel.trouble();
      !trouble.empty() && watched_.config.server.kernel_answers == KernelAnswersMode::On)
    troubles.push_back("kernel answers: " + trouble);
  if (!refused_pods_.trouble().empty()) troubles.push_back(refused_pods_.trouble());
  return troubles;
}

std::string HealthWatch::status_line() const {
  const auto& snapshot = *watched_.mesh.registry.current();
  const std::size_t sources = watched_.sources.size();
  const Readiness state = readiness();
  std::string line = state.is_ready() ? "answering for " : "not ready; knows ";
  line += std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) + " hosts of " +
          std::to_string(sources) + (sources == 1 ? " source" : " sources");
  if (const auto reason = first_reason(state); !reason.empty())
    line += "; " + registry::escape(reason);
  return line;
}

void HealthWatch::publish() {
  board_.publish(watched_.workers.complaint(), readiness_response(readiness()));
}

void HealthWatch::look_for_refused_pods(Time now) {
  const bool was_well = refused_pods_.trouble().empty();
  refused_pods_.observe(*watched_.mesh.registry.current(), watched_.config.server.allow, now);
  if (was_well && !refused_pods_.trouble().empty())
    watched_.log.warn("server.allow refuses Pods",
                      {{"reason", std::string_view(refused_pods_.trouble())}});
}

void HealthWatch::tick(Time now) {
  look_for_refused_pods(now);
  troubles_ = find_troubles();
  beat(now);
  publish();
}

}  // namespace meshdns::dnsd
