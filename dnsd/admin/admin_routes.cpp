// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_routes.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "dnsd/admin/page_parameters.hpp"
#include "dnsd/admin/registry_objects.hpp"
#include "dnsd/admin/reported_finding.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "status_files.hpp"

namespace meshdns::dnsd {
namespace {

void put_collection(Json& json, const registry::CollectionStatus& collection) {
  put(json, "name", collection.name);
  put_bool(json, "synced", collection.synced);
  put_bool(json, "watching", collection.watching);
  put(json, "trouble", collection.trouble);
  put(json, "error", collection.error);
  put(json, "resourceVersion", collection.resource_version);
  put(json, "objects", collection.objects);
  put(json, "refused", collection.refused);
  put(json, "lists", collection.lists);
  put(json, "watches", collection.watches);
  put(json, "relists", collection.relists);
  put(json, "events", collection.events);
  put(json, "errors", collection.errors);
  put(json, "silentSeconds", static_cast<std::uint64_t>(collection.silent_seconds));
}

void put_control_plane(Json& json, const registry::ControlPlaneStatus& status) {
  put_bool(json, "connected", status.connected);
  put(json, "server", status.server);
  put(json, "version", status.version);
  put(json, "names", status.names);
  put(json, "refused", status.refused);
  put(json, "connects", status.connects);
  put(json, "pushes", status.pushes);
  put(json, "refusedPushes", status.refused_pushes);
  put(json, "changedNames", status.changed_names);
  put(json, "bytes", status.bytes);
  put(json, "silentSeconds", static_cast<std::uint64_t>(status.silent_seconds));
}

std::uint64_t seconds_since(std::chrono::steady_clock::time_point then) {
  using std::chrono::seconds;
  return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - then).count();
}

HttpResponse show_sources(const ShownDaemon& daemon) {
  return list_response(daemon.engine.sources.reports(), [](Json& json, const SourceReport& report) {
    const registry::SourceStatus& source = report.status;
    put(json, "name", source.name);
    put_bool(json, "complete", source.complete);
    put(json, "lastError", source.last_error);
    put(json, "changes", source.changes);
    put(json, "origins", source.origins);
    put(json, "broken", source.broken);
    put(json, "unchangedSeconds", seconds_since(report.last_change));
    if (source.cluster) {
      put_bool(json, "reachable", source.cluster->reachable);
      put_objects(json, "collections", source.cluster->collections,
                  [&](const auto& collection) { put_collection(json, collection); });
    }
    if (source.control_plane) put_control_plane(json, *source.control_plane);
  });
}

registry::Finding finding_of(const registry::ContestedAddress& contested,
                             const registry::Snapshot& snapshot) {
  return {.severity = registry::Severity::Warning,
          .path = std::string(snapshot.origins->of(contested.entry->origin())),
          .line = contested.entry->line(),
          .kind = "ServiceEntry",
          .object = contested.entry->key().ns + "/" + std::string(contested.entry->name()),
          .field = "status.addresses",
          .message = contested.address.to_string() + " is ignored: the older " +
                     contested.holder->label() + " has it"};
}

registry::Finding finding_of(const resolver::RefusedNames& refused) {
  return {.severity = registry::Severity::Warning,
          .path = {},
          .line = 0,
          .kind = "Namespace",
          .object = refused.ns,
          .field = {},
          .message = "too many DNS names of endpoints: " + std::to_string(refused.names) +
                     " are not looked up and have no addresses"};
}

template <typename Visit>
void for_each_finding(const ShownDaemon& daemon, Visit visit) {
  const Engine& engine = daemon.engine;
  for (const auto& [origin, findings] : engine.feed.findings())
    for (const auto& finding : findings) visit(finding);
  for (const auto& contested : engine.registry.contested_addresses())
    visit(finding_of(contested, *engine.registry.current()));
  for (const auto& refused : engine.resolution.resolver().refused()) visit(finding_of(refused));
  for (const auto& finding : engine.analysis.status().report.findings) visit(finding);
}

int rank_of(const registry::Finding& finding) { return static_cast<int>(finding.severity); }
int rank_of(const registry::MeshFinding& finding) { return static_cast<int>(finding.weight); }

// With limit=, the severest come first.
HttpResponse show_findings(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto limit = number_argument(request, "limit", UINT64_MAX);
  if (!limit) return bad_request(limit.error().message);
  return json_response([&](Json& json) {
    json.StartArray();
    std::uint64_t left = *limit;
    const bool is_whole = left == UINT64_MAX;
    for (int rank = is_whole ? 0 : static_cast<int>(registry::Severity::Error); rank >= 0; --rank)
      for_each_finding(daemon, [&](const auto& finding) {
        if (left == 0 || (!is_whole && rank_of(finding) != rank)) return;
        put_finding(json, reported(finding));
        --left;
      });
    json.EndArray();
  });
}

std::string_view state_name(registry::ResolvedName::State state) {
  using State = registry::ResolvedName::State;
  switch (state) {
    case State::Pending:
      return "pending";
    case State::Resolved:
      return "resolved";
    case State::NoAddresses:
      return "no_addresses";
    case State::Failed:
      return "failed";
  }
  return "";
}

void put_family(Json& json, const resolver::FamilyStatus& family) {
  put(json, "family", family.family == resolver::Family::V4 ? "ipv4" : "ipv6");
  put_list(json, "addresses", family.addresses,
           [&](const IpAddress& address) { put(json, address.to_string()); });
  put_bool(json, "inFlight", family.in_flight);
  put_bool(json, "stale", family.stale);
  json.Key("expiresInMs");  // of the addresses' TTL; below 0 while stale
  if (family.expires_in)
    json.Int64(family.expires_in->count());
  else
    json.Null();
  json.Key("nextRefreshInMs");
  json.Int64(family.next_refresh_in.count());
  put(json, "lookups", family.lookups);
  put(json, "failures", family.failures);
  put(json, "lastError", family.last_error);
}

bool has_failed(const resolver::NameStatus& status) {
  using State = registry::ResolvedName::State;
  return status.name.state == State::NoAddresses || status.name.state == State::Failed;
}

// failing= leaves out the names that have addresses or are looked up for the first time.
HttpResponse show_resolver(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto limit = number_argument(request, "limit", UINT64_MAX);
  if (!limit) return bad_request(limit.error().message);
  auto names = daemon.engine.resolution.resolver().status();
  if (!request.argument("failing").empty())
    std::erase_if(names, [](const resolver::NameStatus& status) { return !has_failed(status); });
  if (names.size() > *limit) names.resize(*limit);
  return list_response(names, [](Json& json, const resolver::NameStatus& status) {
    put(json, "host", status.name.host);
    put(json, "state", state_name(status.name.state));
    put(json, "by", status.families.empty() ? "mesh" : "upstream");
    put(json, "namespace", status.ns);
    put_list(json, "addresses", status.name.addresses,
             [&](const IpAddress& address) { put(json, address.to_string()); });
    put(json, "lastError", status.name.reason);
    put_objects(json, "families", status.families,
                [&](const resolver::FamilyStatus& family) { put_family(json, family); });
  });
}

// Adds one value of each point, oldest first.
template <typename Points, typename Value>
void put_series(Json& json, const char* key, const Points& points, Value value) {
  put_list(json, key, points, [&](const auto& point) { json.Double(point.*value); });
}

void put_upstream(Json& json, const UpstreamStatus& status, const History& history) {
  json.SetMaxDecimalPlaces(3);
  put(json, "server", status.name);
  put(json, "health", health_name(status));
  put(json, "rttMicroseconds", status.rtt_us);
  // As /top has them; left out if the server has not answered lately.
  const LatencyWindow::Buckets recent = history.latency.recent(status);
  if (std::ranges::any_of(recent, [](std::uint64_t answers) { return answers > 0; })) {
    put_number(json, "medianMs", quantile_ms(recent, 0.5));
    put_number(json, "p99Ms", quantile_ms(recent, 0.99));
  }
  put(json, "inFlight", status.in_flight);
  put(json, "queries", status.queries);
  put(json, "answers", status.answers);
  put(json, "servfail", status.servfail);
  put(json, "refused", status.refused);
  put(json, "otherRcodes", status.other_rcodes);
  put(json, "timeouts", status.timeouts);
  put(json, "unreachable", status.unreachable);
  put(json, "malformed", status.malformed);
  put(json, "mismatched", status.mismatched);
  put(json, "truncated", status.truncated);
  put(json, "tcpQueries", status.tcp_queries);
  put(json, "connections", status.connections);
  put(json, "probes", status.probes);
  put(json, "probeFailures", status.probe_failures);
  put_bool(json, "keepsCase", status.keeps_case);
  put_bool(json, "speaksEdns", status.speaks_edns);
  put_bool(json, "takesOptions", status.takes_options);
  put(json, "lastError", status.last_error);
  if (!status.last_error.empty())
    put(json, "lastErrorSeconds", status.last_error_age.count() / 1'000);
  const auto& points = history.upstreams.points(status.name);
  put_series(json, "repliesPerSecond", points, &UpstreamHistory::Point::replies_per_second);
  put_series(json, "failuresPerSecond", points, &UpstreamHistory::Point::failures_per_second);
}

HttpResponse show_upstreams(const ShownDaemon& daemon) {
  return list_response(upstream_status(daemon), [&](Json& json, const UpstreamStatus& status) {
    put_upstream(json, status, daemon.history);
  });
}

// The share of all answers since the start that the kernel gave.
double share_of_kernel(const WorkersStatus& workers) {
  std::uint64_t all = 0;
  std::uint64_t of_kernel = 0;
  for (const WorkerStatus& worker : workers.each)
    for (const auto& of_rcode : worker.query.responses)
      for (std::size_t source = 0; source < kAnswerSources; ++source) {
        all += of_rcode[source].value();
        if (source == static_cast<std::size_t>(AnswerSource::Kernel))
          of_kernel += of_rcode[source].value();
      }
  return all == 0 ? 0 : static_cast<double>(of_kernel) / static_cast<double>(all);
}

HttpResponse show_status(const ShownDaemon& daemon) {
  using Point = LoadHistory::Point;
  const registry::Snapshot& snapshot = *daemon.engine.registry.current();
  const ClientConfig& client = daemon.engine.config.client;
  const DaemonStatus status = daemon.status();
  const auto& points = daemon.history.load.points();
  return object_response([&](Json& json) {
    json.SetMaxDecimalPlaces(3);
    put(json, "name", daemon.query_settings.server_identity);
    put(json, "version", MESHDNS_VERSION);
    put_bool(json, "bySourceAddress", client.by_source_address);
    put(json, "defaultNamespace", client.default_identity.ns);
    put_list(json, "listening", status.listening,
             [&](const SocketAddress& address) { put(json, address.to_string()); });
    put(json, "upSeconds", seconds_since(daemon.engine.started));
    put(json, "hosts", snapshot.hosts.size() + snapshot.wildcards.size());
    put(json, "resources", snapshot.resources.size());
    put(json, "generation", snapshot.generation);
    if (status.kernel.feed != nullptr)
      put_number(json, "kernelShare", share_of_kernel(status.workers));
    put_series(json, "answersPerSecond", points, &Point::responses_per_second);
    put_series(json, "servfailPerSecond", points, &Point::failures_per_second);
    put_series(json, "medianMs", points, &Point::median_ms);
    put_series(json, "p99Ms", points, &Point::p99_ms);
  });
}

HttpResponse show_log_level(const ShownDaemon& daemon) {
  return object_response(
      [&](Json& json) { put(json, "level", to_string(daemon.engine.log.level())); });
}

// Until the next reload, which takes the configuration's.
HttpResponse set_log_level(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto text = request.argument("level");
  const auto level = log_level_from_string(text);
  if (!level)
    return bad_request("level=: " + in_quotes(text) +
                       " is not one of trace, debug, info, warn, error, off");
  Log& log = daemon.engine.log;
  log.announce("log level changed", {{"from", to_string(log.level())}, {"to", to_string(*level)}});
  log.set_level(*level);
  return show_log_level(daemon);
}

// The number of the last reload, and its verdict.
HttpResponse show_reload(const ShownDaemon& daemon) {
  return object_response([&](Json& json) {
    put(json, "reloads", daemon.reloads.reloads);
    put_bool(json, "ok", daemon.reloads.ok);
    put(json, "findings", daemon.reloads.findings);
    put(json, "notBound", daemon.status().unbound);
  });
}

HttpResponse request_reload(const ShownDaemon& daemon, const HttpRequest& /*request*/) {
  const auto number = daemon.request_reload();
  if (!number) return json_error(number.error().message, 409);
  return object_response([&](Json& json) { put(json, "reload", *number); });
}

// The members `notReady` and `degraded` split `reasons`; without reasons they are left out.
HttpResponse readiness_response(const Readiness& readiness) {
  const auto put_members = [&](Json& json) {
    const auto reasons_of = [](const std::vector<Problem>& problems) {
      std::vector<std::string> reasons;
      for (const Problem& problem : problems) reasons.push_back(problem.reason);
      return reasons;
    };
    const auto not_ready = reasons_of(readiness.not_ready);
    const auto degraded = reasons_of(readiness.degraded);
    std::vector<std::string> all = not_ready;
    all.insert(all.end(), degraded.begin(), degraded.end());
    put_bool(json, "ready", readiness.is_ready());
    put(json, "reasons", all);
    if (!not_ready.empty()) put(json, "notReady", not_ready);
    if (!degraded.empty()) put(json, "degraded", degraded);
    if (!all.empty()) put(json, "effects", readiness.effects());
  };
  return object_response(put_members, readiness.is_ready() ? 200 : 503);
}

HttpResponse show_config(const ShownDaemon& daemon) {
  const Engine& engine = daemon.engine;
  return {200, "application/json",
          to_json(engine.config, *engine.registry.current()->settings) + "\n"};
}

HttpResponse show_metrics(const ShownDaemon& daemon) {
  return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(daemon)};
}

}  // namespace

// The monotonic clock that the cache and the upstreams are asked with.
std::vector<UpstreamStatus> upstream_status(const ShownDaemon& daemon) {
  return daemon.engine.forwarding->upstreams.status(uv_hrtime() / 1'000'000);
}

namespace {

HttpHandler page_file(const char* kind, std::string_view text) {
  const std::string type = std::string("text/") + kind + "; charset=utf-8";
  return [type, text](const HttpRequest&) { return HttpResponse{200, type, std::string(text)}; };
}

using Shared = std::shared_ptr<const ShownDaemon>;

HttpHandler page(const Shared& shared, HttpResponse (*show)(const ShownDaemon&)) {
  return [shared, show](const HttpRequest&) { return show(*shared); };
}

using Answer = HttpResponse (*)(const ShownDaemon&, const HttpRequest&);

HttpHandler page(const Shared& shared, Answer answer) {
  return [shared, answer](const HttpRequest& request) { return answer(*shared, request); };
}

HttpHandler registry_page(const Shared& shared, PutService put_record, PutId put_id) {
  return [shared, put_record, put_id](const HttpRequest& request) {
    return shared->streams.answer({put_record, put_id}, request);
  };
}

// Carries out a request that changes something, if its client may.
HttpHandler change(const Shared& shared, Answer carry_out) {
  return [shared, carry_out](const HttpRequest& request) {
    const Engine& engine = shared->engine;
    auto refused = refuse_change(request, engine.config.admin.token_file);
    if (!refused) return carry_out(*shared, request);
    engine.log.write_folded(LogLevel::Warn, "refused a change through the admin endpoint",
                            {{"path", std::string_view(request.path)}});
    return *std::move(refused);
  };
}

HttpRoutes health_and_metrics(const Shared& shared) {
  HttpRoutes routes;
  routes["/healthz"].status = [shared](const HttpRequest&) {
    return shared->health.health(std::chrono::steady_clock::now());
  };
  routes["/readyz"].status = [shared](const HttpRequest&) {
    return readiness_response(shared->health.readiness());
  };
  routes["/metrics"].get = page(shared, show_metrics);
  return routes;
}

}  // namespace

HttpRoutes metrics_routes(ShownDaemon daemon) {
  return health_and_metrics(std::make_shared<const ShownDaemon>(std::move(daemon)));
}

HttpRoutes admin_routes(ShownDaemon daemon) {
  const auto shared = std::make_shared<const ShownDaemon>(std::move(daemon));
  HttpRoutes routes;
  routes["/"].get = page_file("html", kStatusHtml);
  routes["/status.css"].get = page_file("css", kStatusCss);
  routes["/status.js"].get = page_file("javascript", kStatusJs);
  routes["/status"].get = page(shared, show_status);
  routes["/sources"].get = page(shared, show_sources);
  routes["/registry/services"].get = registry_page(shared, put_service, put_service_id);
  routes["/registry/endpoints"].get = registry_page(shared, put_endpoints, put_endpoints_id);
  routes["/registry/vips"].get = registry_page(shared, put_vip, nullptr);
  routes["/registry/findings"].get = page(shared, show_findings);
  routes["/changes"].get = page(shared, show_changes);
  routes["/resolver"].get = page(shared, show_resolver);
  routes["/upstreams"].get = page(shared, show_upstreams);
  routes["/top"].get = page(shared, show_top);
  routes["/cache"].get = page(shared, show_cache);
  routes["/cache/flush"].post = change(shared, flush_cache);
  routes["/dependencies"].get = page(shared, show_dependencies);
  routes["/dependencies/forget"].post = change(shared, forget_dependencies);
  routes["/config"].get = page(shared, show_config);
  routes["/explain"].get = page(shared, show_explanation);
  routes["/log/level"].get = page(shared, show_log_level);
  routes["/log/level"].post = change(shared, set_log_level);
  routes["/reload"].get = page(shared, show_reload);
  routes["/reload"].post = change(shared, request_reload);
  refuse_other_parameters(routes);
  routes.merge(health_and_metrics(shared));  // a probe's slip must not restart a container
  return routes;
}

}  // namespace meshdns::dnsd
