// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that the admin endpoint shows.  A part of daemon.hpp.
#include "dnsd/daemon/daemon.hpp"
#include "dnsd/mesh/upstream_servers.hpp"

namespace meshdns::dnsd {

ForwardingFacts Daemon::describe_forwarding(std::string_view wire_name, wire::Type type) const {
  return forwarding_facts(route_for(upstream_.current(), wire_name), *engine_.forwarding, wire_name,
                          type, uv_hrtime() / 1'000'000);
}

DaemonParts Daemon::parts() {
  return {.started = started_,
          .config = config_,
          .query_settings = query_settings_.settings(),
          .registry = engine_.registry,
          .streams = registry_streams_,
          .findings = engine_.feed.findings(),
          .analysis = engine_.analysis.status(),
          .held_origins = engine_.feed.held_origins(),
          .feed = engine_.feed.counters(),
          .resolver = engine_.resolution.resolver(),
          .forwarding = *engine_.forwarding,
          .log = log_,
          .health = health_.board(),
          .load = housekeeper_.load(),
          .latency = housekeeper_.latency(),
          .upstream_history = housekeeper_.upstreams(),
          .reloads = reloader_.status(),
          .http = admin_.counters(),
          .answers = [this]() -> const AnswerHistory& { return engine_.answers.history(); },
          .readiness = [this] { return health_.readiness(); },
          .workers = [this] { return workers_.status(); },
          .failing_names = [this](std::size_t limit) { return workers_.failing_names(limit); },
          .top = [this](std::size_t limit) { return workers_.top(limit); },
          .sources = [this] { return engine_.sources.reports(); },
          .state = [this] { return engine_.kept.status(); },
          .kernel = [this] { return kernel_.feed(); },
          .kernel_answers = [this] { return kernel_.status(); },
          .query_logs = [this] { return query_logging_.counts(); },
          .listening = [this] { return addresses_.addresses(); },
          .unbound = [this] { return addresses_.unbound(); },
          .request_reload = [this] { return request_reload(); },
          .describe_forwarding =
              [this](std::string_view wire_name, wire::Type type) {
                return describe_forwarding(wire_name, type);
              }};
}

}  // namespace meshdns::dnsd
