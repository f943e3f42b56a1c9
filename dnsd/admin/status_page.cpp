// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/status_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/page_charts.hpp"
#include "dnsd/admin/page_html.hpp"
#include "dnsd/admin/top_page.hpp"
#include "registry/base/percent_encoding.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kFailingNames = 10;
constexpr std::size_t kMistakes = 10;
constexpr std::size_t kChanges = 10;
constexpr std::size_t kTopEntries = 5;
constexpr std::string_view kStyle =
    "body{font-family:sans-serif;margin:1.5em;max-width:84em;color:#222}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin:1.4em 0 .3em}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.15em 1em .15em 0;"
    "border-bottom:1px solid #ddd;vertical-align:top}"
    "td{font-variant-numeric:tabular-nums}"
    "svg{max-width:100%}rect{fill:#f6f6f6}text{font-size:11px;fill:#666}"
    "line{stroke:#ddd}figure{display:inline-block;margin:0 1em .6em 0}"
    "figcaption{font-size:.85em}polyline{fill:none;stroke-width:1.5}"
    ".state{font-size:.7em;padding:.15em .6em;border-radius:.6em;color:#fff;background:#282}"
    ".down{background:#c30}"
    ".a{stroke:#06c;color:#06c}.b{stroke:#c30;color:#c30}.bad{color:#c30;font-weight:bold}"
    "pre{background:#f6f6f6;padding:.6em;overflow:auto}input{margin-right:.6em}";

std::string describe_cache(const CacheStatistics& cache) {
  if (cache.capacity_bytes == 0) return "off";
  const double mib = 1 << 20;
  const std::uint64_t hits = cache.positive.hits + cache.negative.hits + cache.failure.hits;
  const std::uint64_t lookups = hits + cache.misses;
  std::string text = fmt::format(
      "{} answers, {:.1f} of {:.0f} MiB", cache.positive.entries + cache.negative.entries,
      static_cast<double>(cache.positive.bytes + cache.negative.bytes + cache.failure.bytes) / mib,
      static_cast<double>(cache.capacity_bytes) / mib);
  if (lookups > 0)
    text += fmt::format(", {:.1f} % hits",
                        100.0 * static_cast<double>(hits) / static_cast<double>(lookups));
  if (cache.stale_hits > 0) text += fmt::format(", {} of them stale", cache.stale_hits);
  return text;
}

void add_state(std::string& page, const DaemonParts& daemon) {
  const Readiness readiness = daemon.readiness();
  const auto& snapshot = *daemon.registry.current();
  page += "<h2>State</h2><table>\n";
  add_row(page, {"ready", readiness.is_ready() ? "yes" : "no"}, !readiness.is_ready());
  for (const auto& reason : readiness.not_ready) add_row(page, {"not ready", reason}, true);
  for (const auto& reason : readiness.degraded) add_row(page, {"degraded", reason}, true);
  if (const auto complaint = daemon.workers().complaint; !complaint.empty())
    add_row(page, {"workers", complaint}, true);
  add_row(page, {"up for", ago(daemon.started)});
  add_row(page, {"resources", std::to_string(snapshot.resources.size())});
  add_row(page, {"hosts", std::to_string(snapshot.hosts.size() + snapshot.wildcards.size())});
  add_row(page, {"generation", std::to_string(snapshot.generation)});
  add_row(page, {"cache", describe_cache(daemon.forwarding.cache.statistics())});
  for (const auto& address : daemon.listening()) add_row(page, {"listening", address.to_string()});
  page += "</table>\n";
}

void add_charts(std::string& page, const DaemonParts& daemon) {
  using Point = LoadHistory::Point;
  page += "<h2>Load</h2>\n";
  add_chart(page, "Answers per second", "", daemon.load,
            {{"a", "answers", &Point::responses_per_second},
             {"b", "SERVFAIL", &Point::failures_per_second}});
  add_chart(page, "Latency", " ms", daemon.load,
            {{"a", "median", &Point::median_ms}, {"b", "99 %", &Point::p99_ms}});
}

void add_sources(std::string& page, const DaemonParts& daemon) {
  add_heading(page, "Sources",
              {"source", "read", "last change", "origins", "broken", "last error"});
  for (const auto& [source, changed] : daemon.sources())
    add_row(page,
            {source.name, source.complete ? "yes" : "not yet", ago(changed) + " ago",
             std::to_string(source.origins), std::to_string(source.broken), source.last_error},
            !source.complete || source.broken > 0 || !source.last_error.empty());
  page += "</table>\n";
}

void add_upstreams(std::string& page, const DaemonParts& daemon) {
  add_heading(page, "Upstream servers",
              {"server", "health", "round trip", "queries", "answers", "timeouts", "last error"});
  for (const auto& upstream : upstream_status(daemon))
    add_row(
        page,
        {upstream.name, std::string(health_name(upstream)),
         upstream.rtt_us == 0 ? "not measured" : fmt::format("{:.2f} ms", upstream.rtt_us / 1e3),
         std::to_string(upstream.queries), std::to_string(upstream.answers),
         std::to_string(upstream.timeouts), upstream.last_error},
        health_name(upstream) != "up");
  page += "</table>\n";
}

void add_failing_names(std::string& page, const DaemonParts& daemon) {
  add_heading(page, "Names without an answer, lately", {"name", "rcode", "times"});
  for (const auto& entry : daemon.failing_names(kFailingNames)) {
    const std::string name = registry::escape(entry.name) + ".";
    page += fmt::format("<tr><td><a href=\"/?name={}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
                        percent_encoded(name), escaped(name), wire::to_string(entry.rcode),
                        entry.count);
  }
  page += "</table>\n";
}

// Adds the most frequent names and clients.
void add_top(std::string& page, const DaemonParts& daemon) {
  const TopReport top = daemon.top(kTopEntries);
  const auto per_second = [&](const TopEntry& entry) {
    return fmt::format("{:.1f}", top.per_second(entry.amount));
  };
  add_heading(page, "Most frequent names, lately", {"name", "queries per second"});
  for (const TopEntry& entry : top.names) {
    const std::string name = top_name(entry);
    if (entry.is_cut)
      add_row(page, {name, per_second(entry)});
    else
      page += fmt::format("<tr><td><a href=\"/?name={}\">{}</a></td><td>{}</td></tr>\n",
                          percent_encoded(name), escaped(name), per_second(entry));
  }
  page += "</table>\n";
  add_heading(page, "Clients that ask most, lately", {"client", "queries per second", "is"});
  for (const TopEntry& entry : top.clients)
    add_row(page, {top_address(entry).to_string(), per_second(entry),
                   top_client(daemon, top_address(entry)).description});
  page += "</table>\n";
  if (top.refused_clients.empty()) return;
  add_heading(page, "Clients that are refused or limited, lately",
              {"client", "queries per second"});
  for (const TopEntry& entry : top.refused_clients)
    add_row(page, {top_address(entry).to_string(), per_second(entry)}, true);
  page += "</table>\n";
}

// Adds the findings about resources, errors first; nothing if there are none.
void add_findings(std::string& page, const DaemonParts& daemon) {
  std::vector<const registry::Finding*> found;
  for (const auto& [origin, findings] : daemon.findings)
    for (const auto& finding : findings) found.push_back(&finding);
  if (found.empty()) return;
  std::ranges::stable_partition(found, [](const registry::Finding* finding) {
    return finding->severity == registry::Severity::Error;
  });
  add_heading(page, "Mistakes in resources", {fmt::format("{} findings", found.size())});
  for (std::size_t i = 0; i < std::min(found.size(), kMistakes); ++i)
    add_row(page, {found[i]->to_string()}, found[i]->severity == registry::Severity::Error);
  if (found.size() > kMistakes)
    page += "<tr><td><a href=\"/registry/findings\">all</a></td></tr>\n";
  page += "</table>\n";
}

// Adds the findings of the analysis, the severest first; nothing if there are none.
void add_mesh_findings(std::string& page, const DaemonParts& daemon) {
  using registry::MeshFinding;
  const auto& all = daemon.analysis.report.findings;
  if (all.empty()) return;
  std::vector<const MeshFinding*> found;
  for (const auto& finding : all) found.push_back(&finding);
  std::ranges::stable_sort(found, std::greater(), [](const MeshFinding* f) { return f->weight; });
  add_heading(page, "Mistakes across resources", {fmt::format("{} findings", found.size())});
  for (std::size_t i = 0; i < std::min(found.size(), kMistakes); ++i)
    add_row(page, {found[i]->to_string()}, found[i]->weight == registry::Weight::Error);
  if (found.size() > kMistakes)
    page += "<tr><td><a href=\"/registry/findings\">all</a></td></tr>\n";
  page += "</table>\n";
}

// Adds the newest changes of answers; nothing if there are none.
void add_changes(std::string& page, const DaemonParts& daemon) {
  const auto& events = daemon.answers().events();
  if (events.empty()) return;
  add_heading(page, "Answers that have changed", {"time", "name", "change", "answers", "object"});
  for (std::size_t i = 0; i < std::min(events.size(), kChanges); ++i) {
    const AnswerEvent& event = events[events.size() - 1 - i];
    add_row(page, {time_text(event.unix_seconds), event.name, std::string(to_string(event.kind)),
                   answers_text(event),
                   event.object + (event.source.empty() ? "" : " (" + event.source + ")")});
  }
  if (events.size() > kChanges) page += "<tr><td><a href=\"/changes\">all</a></td></tr>\n";
  page += "</table>\n";
}

// Endpoints of services whose names do not resolve.
void add_unresolved(std::string& page, const DaemonParts& daemon) {
  using State = registry::ResolvedName::State;
  std::vector<resolver::NameStatus> failed = daemon.resolver.status();
  std::erase_if(failed, [](const auto& status) {
    return status.name.state == State::Resolved || status.name.state == State::Pending;
  });
  if (failed.empty()) return;
  add_heading(page, "Endpoints whose names do not resolve", {"name", "last error"});
  for (std::size_t i = 0; i < std::min(failed.size(), kMistakes); ++i) {
    std::string error = failed[i].name.reason;
    for (const auto& family : failed[i].families)
      if (error.empty()) error = family.last_error;
    add_row(page, {failed[i].name.host, error.empty() ? "no addresses" : error});
  }
  if (failed.size() > kMistakes) page += "<tr><td><a href=\"/resolver\">all</a></td></tr>\n";
  page += "</table>\n";
}

void add_field(std::string& page, const HttpRequest& request, std::string_view name,
               std::string_view hint) {
  page += fmt::format("<label>{0} <input name=\"{0}\" placeholder=\"{1}\" value=\"{2}\"></label>",
                      name, hint, escaped(request.argument(name)));
}

void add_explanation(std::string& page, const DaemonParts& daemon, const HttpRequest& request) {
  page += "<h2>Why is a name answered as it is?</h2>\n<form action=\"/\" method=\"get\">";
  add_field(page, request, "name", "api.example.org");
  add_field(page, request, "type", "A and AAAA");
  add_field(page, request, "from", "namespace or IP address");
  page += "<button>Explain</button></form>\n";
  if (request.argument("name").empty()) return;
  const auto explanation = explanation_for(daemon, request);
  page += "<pre>";
  if (!explanation) page += escaped(explanation.error().message);
  if (explanation)
    for (const auto& line : to_lines(*explanation, Audience::Operator))
      page += escaped(line) + "\n";
  page += "</pre>\n";
}

void add_links(std::string& page) {
  page += "<p>";
  for (const std::string_view path :
       {"/healthz", "/readyz", "/metrics", "/registry/services", "/registry/endpoints",
        "/registry/vips", "/registry/findings", "/changes", "/sources", "/resolver", "/upstreams",
        "/top", "/cache", "/config", "/log/level"})
    page += fmt::format("<a href=\"{0}\">{0}</a> ", path);
  page += "</p>\n";
}

}  // namespace

std::string status_page(const DaemonParts& daemon, const HttpRequest& request) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>meshdns</title>";
  const Readiness readiness = daemon.readiness();
  const bool is_well = readiness.is_ready() && daemon.workers().complaint.empty();
  const char* const well = readiness.degraded.empty() ? "ready" : "degraded";
  page += fmt::format("<style>{}</style></head><body>\n<h1>meshdns " MESHDNS_VERSION
                      " <span class=\"state{}\">{}</span></h1>\n",
                      kStyle, is_well ? "" : " down", is_well ? well : "not ready");
  add_explanation(page, daemon, request);
  add_state(page, daemon);
  add_charts(page, daemon);
  add_sources(page, daemon);
  add_upstreams(page, daemon);
  add_failing_names(page, daemon);
  add_top(page, daemon);
  add_changes(page, daemon);
  add_unresolved(page, daemon);
  add_findings(page, daemon);
  add_mesh_findings(page, daemon);
  add_links(page);
  page += "</body></html>\n";
  return page;
}

}  // namespace meshdns::dnsd
