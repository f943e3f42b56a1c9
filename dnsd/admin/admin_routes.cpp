// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_routes.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/admin/answer_pages.hpp"
#include "dnsd/admin/explain_page.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "dnsd/admin/registry_objects.hpp"
#include "dnsd/admin/reported_finding.hpp"
#include "dnsd/admin/top_page.hpp"
#include "dnsd/answer/explanation.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "resolver/wire/name_text.hpp"
#include "status_files.hpp"

namespace meshdns::dnsd {
namespace {

void put_collection(Json& json, const registry::CollectionStatus& collection) {
  json.StartObject();
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
  json.EndObject();
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

HttpResponse show_sources(const DaemonParts& daemon) {
  return json_response([&](Json& json) {
    json.StartArray();
    for (const auto& [source, changed] : daemon.sources()) {
      json.StartObject();
      put(json, "name", source.name);
      put_bool(json, "complete", source.complete);
      put(json, "lastError", source.last_error);
      put(json, "changes", source.changes);
      put(json, "origins", source.origins);
      put(json, "broken", source.broken);
      put(json, "unchangedSeconds", seconds_since(changed));
      if (source.cluster) {
        put_bool(json, "reachable", source.cluster->reachable);
        put_list(json, "collections", source.cluster->collections,
                 [&](const auto& collection) { put_collection(json, collection); });
      }
      if (source.control_plane) put_control_plane(json, *source.control_plane);
      json.EndObject();
    }
    json.EndArray();
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
void for_each_finding(const DaemonParts& daemon, Visit visit) {
  for (const auto& [origin, findings] : daemon.findings)
    for (const auto& finding : findings) visit(finding);
  for (const auto& contested : daemon.registry.contested_addresses())
    visit(finding_of(contested, *daemon.registry.current()));
  for (const auto& refused : daemon.resolver.refused()) visit(finding_of(refused));
  for (const auto& finding : daemon.analysis.report.findings) visit(finding);
}

int rank_of(const registry::Finding& finding) { return static_cast<int>(finding.severity); }
int rank_of(const registry::MeshFinding& finding) { return static_cast<int>(finding.weight); }

// With limit=, the severest come first.
HttpResponse show_findings(const DaemonParts& daemon, const HttpRequest& request) {
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
  json.StartObject();
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
  json.EndObject();
}

bool has_failed(const resolver::NameStatus& status) {
  using State = registry::ResolvedName::State;
  return status.name.state == State::NoAddresses || status.name.state == State::Failed;
}

// failing= leaves out the names that have addresses or are looked up for the first time.
HttpResponse show_resolver(const DaemonParts& daemon, const HttpRequest& request) {
  const auto limit = number_argument(request, "limit", UINT64_MAX);
  if (!limit) return bad_request(limit.error().message);
  const bool is_failing = !request.argument("failing").empty();
  return json_response([&](Json& json) {
    std::uint64_t left = *limit;
    json.StartArray();
    for (const auto& status : daemon.resolver.status()) {
      if (left == 0) break;
      if (is_failing && !has_failed(status)) continue;
      --left;
      json.StartObject();
      put(json, "host", status.name.host);
      put(json, "state", state_name(status.name.state));
      put(json, "by", status.families.empty() ? "mesh" : "upstream");
      put(json, "namespace", status.ns);
      put_list(json, "addresses", status.name.addresses,
               [&](const IpAddress& address) { put(json, address.to_string()); });
      put(json, "lastError", status.name.reason);
      put_list(json, "families", status.families,
               [&](const resolver::FamilyStatus& family) { put_family(json, family); });
      json.EndObject();
    }
    json.EndArray();
  });
}

HttpResponse show_cache(const DaemonParts& daemon) {
  const CacheStatistics cache = daemon.forwarding.cache.statistics();
  return json_response([&](Json& json) {
    const auto put_kind = [&](const char* name, const CacheStatistics::Kind& kind) {
      json.Key(name);
      json.StartObject();
      put(json, "entries", kind.entries);
      put(json, "bytes", kind.bytes);
      put(json, "hits", kind.hits);
      put(json, "evictions", kind.evictions);
      json.EndObject();
    };
    json.StartObject();
    put_kind("positive", cache.positive);
    put_kind("negative", cache.negative);
    put_kind("failure", cache.failure);
    put(json, "staleHits", cache.stale_hits);
    put(json, "misses", cache.misses);
    put(json, "insertions", cache.insertions);
    put(json, "refreshes", cache.refreshes);
    put(json, "capacityBytes", cache.capacity_bytes);
    json.EndObject();
  });
}

// Adds one value of each point, oldest first.
template <typename Points, typename Value>
void put_series(Json& json, const char* key, const Points& points, Value value) {
  put_list(json, key, points, [&](const auto& point) { json.Double(point.*value); });
}

void put_upstream(Json& json, const UpstreamStatus& status, const UpstreamHistory& history) {
  json.StartObject();
  put(json, "server", status.name);
  put(json, "health", health_name(status));
  put(json, "rttMicroseconds", status.rtt_us);
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
  const auto& points = history.points(status.name);
  put_series(json, "repliesPerSecond", points, &UpstreamHistory::Point::replies_per_second);
  put_series(json, "failuresPerSecond", points, &UpstreamHistory::Point::failures_per_second);
  json.EndObject();
}

HttpResponse show_upstreams(const DaemonParts& daemon) {
  return json_response([&](Json& json) {
    json.SetMaxDecimalPlaces(3);
    json.StartArray();
    for (const auto& status : upstream_status(daemon))
      put_upstream(json, status, daemon.upstream_history);
    json.EndArray();
  });
}

// `name`: that name, every type; `zone`: it and all below, "." everything.
HttpResponse flush_cache(const DaemonParts& daemon, const HttpRequest& request) {
  const auto name = request.argument("name");
  const auto zone = request.argument("zone");
  if (name.empty() == zone.empty())
    return bad_request("name=NAME or zone=ZONE is needed, one of them; zone=. is everything");
  const auto wire_name = wire::name_from_text(name.empty() ? zone : name);
  if (!wire_name) return bad_request(wire_name.error().message);
  const std::size_t removed = name.empty() ? daemon.forwarding.cache.flush_zone(*wire_name)
                                           : daemon.forwarding.cache.flush_name(*wire_name);
  daemon.log.info("cache flushed", {{name.empty() ? "zone" : "name", name.empty() ? zone : name},
                                    {"entries", removed}});
  return json_response([&](Json& json) {
    json.StartObject();
    put(json, "removed", removed);
    json.EndObject();
  });
}

// The share of all answers since the start that the kernel gave.
double share_of_kernel(const DaemonParts& daemon) {
  std::uint64_t all = 0;
  std::uint64_t of_kernel = 0;
  for (const WorkerStatus& worker : daemon.workers().each)
    for (const auto& of_rcode : worker.query.responses)
      for (std::size_t source = 0; source < kAnswerSources; ++source) {
        all += of_rcode[source].value();
        if (source == static_cast<std::size_t>(AnswerSource::Kernel))
          of_kernel += of_rcode[source].value();
      }
  return all == 0 ? 0 : static_cast<double>(of_kernel) / static_cast<double>(all);
}

HttpResponse show_status(const DaemonParts& daemon) {
  using Point = LoadHistory::Point;
  const registry::Snapshot& snapshot = *daemon.registry.current();
  const ClientConfig& client = daemon.config.client;
  const auto& points = daemon.load.points();
  return json_response([&](Json& json) {
    json.SetMaxDecimalPlaces(3);
    json.StartObject();
    put(json, "name", daemon.query_settings.server_identity);
    put(json, "version", MESHDNS_VERSION);
    put_bool(json, "bySourceAddress", client.by_source_address);
    put(json, "defaultNamespace", client.default_identity.ns);
    put_list(json, "listening", daemon.listening(),
             [&](const SocketAddress& address) { put(json, address.to_string()); });
    put(json, "upSeconds", seconds_since(daemon.started));
    put(json, "hosts", snapshot.hosts.size() + snapshot.wildcards.size());
    put(json, "resources", snapshot.resources.size());
    put(json, "generation", snapshot.generation);
    if (daemon.kernel_answers().is_open) put_number(json, "kernelShare", share_of_kernel(daemon));
    put_series(json, "answersPerSecond", points, &Point::responses_per_second);
    put_series(json, "servfailPerSecond", points, &Point::failures_per_second);
    put_series(json, "medianMs", points, &Point::median_ms);
    put_series(json, "p99Ms", points, &Point::p99_ms);
    json.EndObject();
  });
}

HttpResponse show_log_level(const DaemonParts& daemon) {
  return json_response([&](Json& json) {
    json.StartObject();
    put(json, "level", to_string(daemon.log.level()));
    json.EndObject();
  });
}

// Until the next reload, which takes the configuration's.
HttpResponse set_log_level(const DaemonParts& daemon, const HttpRequest& request) {
  const auto text = request.argument("level");
  const auto level = log_level_from_string(text);
  if (!level)
    return bad_request("level=: " + in_quotes(text) +
                       " is not one of trace, debug, info, warn, error, off");
  daemon.log.announce("log level changed",
                      {{"from", to_string(daemon.log.level())}, {"to", to_string(*level)}});
  daemon.log.set_level(*level);
  return show_log_level(daemon);
}

// The number of the last reload, and its verdict.
HttpResponse show_reload(const DaemonParts& daemon) {
  return json_response([&](Json& json) {
    json.StartObject();
    put(json, "reloads", daemon.reloads.reloads);
    put_bool(json, "ok", daemon.reloads.ok);
    put(json, "findings", daemon.reloads.findings);
    put(json, "notBound", daemon.unbound());
    json.EndObject();
  });
}

HttpResponse request_reload(const DaemonParts& daemon, const HttpRequest& /*request*/) {
  const auto number = daemon.request_reload();
  if (!number) return json_error(number.error().message, 409);
  return json_response([&](Json& json) {
    json.StartObject();
    put(json, "reload", *number);
    json.EndObject();
  });
}

// Carries out a request that changes something, if its client may.
HttpResponse change(const DaemonParts& daemon, const HttpRequest& request,
                    HttpResponse (*carry_out)(const DaemonParts&, const HttpRequest&)) {
  auto refused = refuse_change(request, daemon.config.admin.token_file);
  if (!refused) return carry_out(daemon, request);
  daemon.log.write_folded(LogLevel::Warn, "refused a change through the admin endpoint",
                          {{"path", std::string_view(request.path)}});
  return *std::move(refused);
}

}  // namespace

// The members `notReady` and `degraded` split `reasons`; without reasons they are left out.
HttpResponse readiness_response(const Readiness& readiness) {
  return json_response(
      [&](Json& json) {
        const auto put_reasons = [&](const char* name, const std::vector<std::string>& reasons) {
          put_list(json, name, reasons, [&](const std::string& reason) { put(json, reason); });
        };
        std::vector<std::string> all = readiness.not_ready;
        all.insert(all.end(), readiness.degraded.begin(), readiness.degraded.end());
        json.StartObject();
        put_bool(json, "ready", readiness.is_ready());
        put_reasons("reasons", all);
        if (!readiness.not_ready.empty()) put_reasons("notReady", readiness.not_ready);
        if (!readiness.degraded.empty()) put_reasons("degraded", readiness.degraded);
        json.EndObject();
      },
      readiness.is_ready() ? 200 : 503);
}

// The monotonic clock that the cache and the upstreams are asked with.
std::vector<UpstreamStatus> upstream_status(const DaemonParts& daemon) {
  return daemon.forwarding.upstreams.status(uv_hrtime() / 1'000'000);
}

namespace {

HttpResponse page_file(const char* kind, std::string_view text) {
  return {200, std::string("text/") + kind + "; charset=utf-8", std::string(text)};
}

HttpRoutes health_and_metrics(const std::shared_ptr<const DaemonParts>& shared) {
  using Request = const HttpRequest&;
  HttpRoutes routes;
  routes["/healthz"].status = [shared](Request) {
    return shared->health.health(std::chrono::steady_clock::now());
  };
  routes["/readyz"].status = [shared](Request) { return shared->health.readiness(); };
  routes["/metrics"].get = [shared](Request) {
    return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(*shared)};
  };
  return routes;
}

}  // namespace

HttpRoutes metrics_routes(DaemonParts parts) {
  return health_and_metrics(std::make_shared<const DaemonParts>(std::move(parts)));
}

HttpRoutes admin_routes(DaemonParts parts) {
  using Request = const HttpRequest&;
  const auto shared = std::make_shared<const DaemonParts>(std::move(parts));
  HttpRoutes routes = health_and_metrics(shared);
  routes["/"].get = [](Request) { return page_file("html", kStatusHtml); };
  routes["/status.css"].get = [](Request) { return page_file("css", kStatusCss); };
  routes["/status.js"].get = [](Request) { return page_file("javascript", kStatusJs); };
  routes["/status"].get = [shared](Request) { return show_status(*shared); };
  routes["/sources"].get = [shared](Request) { return show_sources(*shared); };
  routes["/registry/services"].get = [shared](Request request) {
    return shared->streams.answer({put_service, put_service_id}, request);
  };
  routes["/registry/endpoints"].get = [shared](Request request) {
    return shared->streams.answer({put_endpoints, put_endpoints_id}, request);
  };
  routes["/registry/vips"].get = [shared](Request request) {
    return shared->streams.answer({put_vip, nullptr}, request);
  };
  routes["/registry/findings"].get = [shared](Request request) {
    return show_findings(*shared, request);
  };
  routes["/changes"].get = [shared](Request request) { return show_changes(*shared, request); };
  routes["/resolver"].get = [shared](Request request) { return show_resolver(*shared, request); };
  routes["/upstreams"].get = [shared](Request) { return show_upstreams(*shared); };
  routes["/top"].get = [shared](Request request) { return show_top(*shared, request); };
  routes["/cache"].get = [shared](Request) { return show_cache(*shared); };
  routes["/cache/flush"].post = [shared](Request request) {
    return change(*shared, request, flush_cache);
  };
  routes["/config"].get = [shared](Request) {
    const registry::MeshSettings& in_force = *shared->registry.current()->settings;
    return HttpResponse{200, "application/json", to_json(shared->config, in_force) + "\n"};
  };
  routes["/explain"].get = [shared](Request request) { return show_explanation(*shared, request); };
  routes["/log/level"].get = [shared](Request) { return show_log_level(*shared); };
  routes["/log/level"].post = [shared](Request request) {
    return change(*shared, request, set_log_level);
  };
  routes["/reload"].get = [shared](Request) { return show_reload(*shared); };
  routes["/reload"].post = [shared](Request request) {
    return change(*shared, request, request_reload);
  };
  return routes;
}

}  // namespace meshdns::dnsd
