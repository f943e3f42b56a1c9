// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/status_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/explain_page.hpp"
#include "dnsd/admin/live_page.hpp"
#include "dnsd/admin/name_search.hpp"
#include "dnsd/admin/page_charts.hpp"
#include "dnsd/admin/page_html.hpp"
#include "dnsd/admin/page_style.hpp"
#include "dnsd/admin/top_page.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kFailingNames = 10;
constexpr std::size_t kMistakes = 10;
constexpr std::size_t kChanges = 10;
constexpr std::size_t kTopEntries = 5;
constexpr std::size_t kNamesFound = 50;

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

struct OverallState {
  const char* css_class;
  std::string_view word;
  std::string_view sentence;
};

// All that the banner says.
struct Banner {
  OverallState state;
  std::string complaint;  // of the workers
  Readiness readiness;
};

OverallState overall_state(std::string_view complaint, const Readiness& readiness) {
  if (!complaint.empty()) return {"broken", "broken", "Queries may stay without an answer."};
  if (!readiness.is_ready())
    return {"broken", "not ready", "Names may be missing: clients should wait."};
  if (!readiness.degraded.empty())
    return {"degraded", "degraded", "Everything is answered, but not as it should be."};
  return {"healthy", "healthy", "All sources have been read, and the upstream servers answer."};
}

Banner banner_of(const DaemonParts& daemon) {
  Banner banner{{}, daemon.workers().complaint, daemon.readiness()};
  banner.state = overall_state(banner.complaint, banner.readiness);
  return banner;
}

void add_reason(std::string& reasons, std::string_view kind, std::string_view reason) {
  reasons += fmt::format("<li><b>{}</b> {}</li>\n", kind, escaped(reason));
}

void add_banner(std::string& page, const Banner& banner) {
  page += fmt::format("<div data-state=\"{}\"><strong>{}</strong> {}\n", banner.state.css_class,
                      banner.state.word, banner.state.sentence);
  std::string reasons;
  if (!banner.complaint.empty()) add_reason(reasons, "workers", banner.complaint);
  for (const auto& reason : banner.readiness.not_ready) add_reason(reasons, "not ready", reason);
  for (const auto& reason : banner.readiness.degraded) add_reason(reasons, "degraded", reason);
  if (!reasons.empty()) page += "<ul>\n" + reasons + "</ul>";
  page += "</div>";
}

void add_figure(std::string& page, std::string_view what, std::string_view value) {
  page += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", what, escaped(value));
}

// The share of all answers since the start; empty: the kernel answers nothing.
std::string kernel_share(const DaemonParts& daemon) {
  if (!daemon.kernel_answers().is_open) return {};
  std::uint64_t all = 0;
  std::uint64_t of_kernel = 0;
  for (const WorkerStatus& worker : daemon.workers().each)
    for (const auto& of_rcode : worker.query.responses)
      for (std::size_t source = 0; source < kAnswerSources; ++source) {
        all += of_rcode[source].value();
        if (source == static_cast<std::size_t>(AnswerSource::Kernel))
          of_kernel += of_rcode[source].value();
      }
  return fmt::format(
      "{:.1f} %",
      all == 0 ? 0.0 : 100.0 * static_cast<double>(of_kernel) / static_cast<double>(all));
}

void add_figures(std::string& page, const DaemonParts& daemon) {
  const auto& snapshot = *daemon.registry.current();
  const auto& points = daemon.load.points();
  const LoadHistory::Point now = points.empty() ? LoadHistory::Point() : points.back();
  begin_section(page, "Now", true);
  page += "<dl>\n";
  add_figure(page, "answers per second", fmt::format("{:.0f}", now.responses_per_second));
  add_figure(page, "SERVFAIL per second", fmt::format("{:.0f}", now.failures_per_second));
  add_figure(page, "99 % answered within", fmt::format("{:.3g} ms", now.p99_ms));
  add_figure(page, "hosts", std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()));
  add_figure(page, "resources", std::to_string(snapshot.resources.size()));
  add_figure(page, "generation", std::to_string(snapshot.generation));
  add_figure(page, "up for", ago(daemon.started));
  add_figure(page, "cache", describe_cache(daemon.forwarding.cache.statistics()));
  if (const std::string share = kernel_share(daemon); !share.empty())
    add_figure(page, "answered in the kernel", share);
  page += "</dl>";
  end_section(page);
}

void add_charts(std::string& page, const DaemonParts& daemon) {
  using Point = LoadHistory::Point;
  begin_section(page, "Load");
  add_chart(page, "Answers per second", "", daemon.load,
            {{"a", "answers", &Point::responses_per_second},
             {"b", "SERVFAIL", &Point::failures_per_second}});
  end_section(page);
  begin_section(page, "Time to answer");
  add_chart(page, "Latency", " ms", daemon.load,
            {{"a", "median", &Point::median_ms}, {"b", "99 %", &Point::p99_ms}});
  end_section(page);
}

void add_sources(std::string& page, const DaemonParts& daemon) {
  begin_table(page, "Sources", {"source", "read", "last change", "origins", "broken", "last error"},
              true);
  for (const auto& [source, changed] : daemon.sources())
    add_row(page,
            {source.name, source.complete ? "yes" : "not yet", ago(changed) + " ago",
             std::to_string(source.origins), std::to_string(source.broken), source.last_error},
            !source.complete || source.broken > 0 || !source.last_error.empty());
  end_table(page);
}

void add_upstreams(std::string& page, const DaemonParts& daemon) {
  begin_table(page, "Upstream servers",
              {"server", "health", "round trip", "queries", "answers", "timeouts", "last error",
               "replies, failures"},
              true);
  for (const auto& upstream : upstream_status(daemon)) {
    page += health_name(upstream) == "up" ? "<tr>" : "<tr class=\"bad\">";
    add_cells(page, {upstream.name, std::string(health_name(upstream)),
                     upstream.rtt_us == 0 ? "not measured"
                                          : fmt::format("{:.2f} ms", upstream.rtt_us / 1e3),
                     std::to_string(upstream.queries), std::to_string(upstream.answers),
                     std::to_string(upstream.timeouts), upstream.last_error});
    page += "<td>";
    add_sparkline(page, daemon.upstream_history.points(upstream.name));
    page += "</td></tr>\n";
  }
  end_table(page);
}

void add_failing_names(std::string& page, const DaemonParts& daemon) {
  begin_table(page, "Names without an answer, lately", {"name", "rcode", "times"});
  for (const auto& entry : daemon.failing_names(kFailingNames)) {
    const std::string name = registry::escape(entry.name) + ".";
    page += fmt::format("<tr><td><a href=\"/?name={}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
                        percent_encoded(name), escaped(name), wire::to_string(entry.rcode),
                        entry.count);
  }
  end_table(page);
}

// Adds the most frequent names and clients.
void add_top(std::string& page, const DaemonParts& daemon) {
  const TopReport top = daemon.top(kTopEntries);
  const auto per_second = [&](const TopEntry& entry) {
    return fmt::format("{:.1f}", top.per_second(entry.amount));
  };
  begin_table(page, "Most frequent names, lately", {"name", "queries per second"});
  for (const TopEntry& entry : top.names) {
    const std::string name = top_name(entry);
    if (entry.is_cut)
      add_row(page, {name, per_second(entry)});
    else
      page += fmt::format("<tr><td><a href=\"/?name={}\">{}</a></td><td>{}</td></tr>\n",
                          percent_encoded(name), escaped(name), per_second(entry));
  }
  end_table(page);
  begin_table(page, "Clients that ask most, lately", {"client", "queries per second", "is"});
  for (const TopEntry& entry : top.clients)
    add_row(page, {top_address(entry).to_string(), per_second(entry),
                   top_client(daemon, top_address(entry)).description});
  end_table(page);
  if (top.refused_clients.empty()) return;
  begin_table(page, "Clients that are refused or limited, lately",
              {"client", "queries per second"});
  for (const TopEntry& entry : top.refused_clients)
    add_row(page, {top_address(entry).to_string(), per_second(entry)}, true);
  end_table(page);
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
  begin_table(page, "Mistakes in resources", {fmt::format("{} findings", found.size())});
  for (std::size_t i = 0; i < std::min(found.size(), kMistakes); ++i)
    add_row(page, {found[i]->to_string()}, found[i]->severity == registry::Severity::Error);
  end_table(page, found.size() > kMistakes, "/registry/findings");
}

// Adds the findings of the analysis, the severest first; nothing if there are none.
void add_mesh_findings(std::string& page, const DaemonParts& daemon) {
  using registry::MeshFinding;
  const auto& all = daemon.analysis.report.findings;
  if (all.empty()) return;
  std::vector<const MeshFinding*> found;
  for (const auto& finding : all) found.push_back(&finding);
  std::ranges::stable_sort(found, std::greater(), [](const MeshFinding* f) { return f->weight; });
  begin_table(page, "Mistakes across resources", {fmt::format("{} findings", found.size())});
  for (std::size_t i = 0; i < std::min(found.size(), kMistakes); ++i)
    add_row(page, {found[i]->to_string()}, found[i]->weight == registry::Weight::Error);
  end_table(page, found.size() > kMistakes, "/registry/findings");
}

// Adds the newest changes of answers; nothing if there are none.
void add_changes(std::string& page, const DaemonParts& daemon) {
  const auto& events = daemon.answers().events();
  if (events.empty()) return;
  begin_table(page, "Answers that have changed", {"time", "name", "change", "answers", "object"});
  for (std::size_t i = 0; i < std::min(events.size(), kChanges); ++i) {
    const AnswerEvent& event = events[events.size() - 1 - i];
    add_row(page, {time_text(event.unix_seconds), event.name, std::string(to_string(event.kind)),
                   answers_text(event),
                   event.object + (event.source.empty() ? "" : " (" + event.source + ")")});
  }
  end_table(page, events.size() > kChanges, "/changes");
}

// Endpoints of services whose names do not resolve.
void add_unresolved(std::string& page, const DaemonParts& daemon) {
  using State = registry::ResolvedName::State;
  std::vector<resolver::NameStatus> failed = daemon.resolver.status();
  std::erase_if(failed, [](const auto& status) {
    return status.name.state == State::Resolved || status.name.state == State::Pending;
  });
  if (failed.empty()) return;
  begin_table(page, "Endpoints whose names do not resolve", {"name", "last error"});
  for (std::size_t i = 0; i < std::min(failed.size(), kMistakes); ++i) {
    std::string error = failed[i].name.reason;
    for (const auto& family : failed[i].families)
      if (error.empty()) error = family.last_error;
    add_row(page, {failed[i].name.host, error.empty() ? "no addresses" : error});
  }
  end_table(page, failed.size() > kMistakes, "/resolver");
}

void add_field(std::string& page, const HttpRequest& request, std::string_view name,
               std::string_view label, std::string_view hint) {
  page += fmt::format("<label>{} <input name=\"{}\" placeholder=\"{}\" value=\"{}\"></label>\n",
                      label, name, hint, escaped(request.argument(name)));
}

void add_explanation(std::string& page, const DaemonParts& daemon, const HttpRequest& request) {
  const auto explanation = explanation_for(daemon, request);
  page += "<pre>";
  if (!explanation) page += escaped(explanation.error().message);
  if (explanation)
    for (const auto& line : to_lines(*explanation, Audience::Operator))
      page += escaped(line) + "\n";
  page += "</pre>\n";
}

void add_found_names(std::string& page, const DaemonParts& daemon, const HttpRequest& request) {
  const auto from = request.argument("from");
  const auto client = client_from(daemon, from);
  if (!client || !*client) {
    page += fmt::format("<p role=\"status\">{}</p>\n",
                        client ? "This address is not a known client, and client.unknown is refuse."
                               : client.error().message);
    return;
  }
  const auto found =
      find_names(*daemon.registry.current(), **client, request.argument("name"), kNamesFound);
  page += fmt::format("<p role=\"status\">Names found: {}{}</p>\n<table>\n",
                      found.is_complete ? "" : "more than ", found.names.size());
  for (const NameMatch& name : found.names)
    page += fmt::format(
        "<tr><td><a href=\"/?name={}&amp;from={}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
        percent_encoded(name.name), percent_encoded(from), escaped(name.name), escaped(name.answer),
        escaped(name.source));
  page += "</table>\n";
}

void add_questions(std::string& page, const DaemonParts& daemon, const HttpRequest& request) {
  begin_section(page, "Why is a name answered as it is?");
  page += "<form action=\"/\" method=\"get\">\n";
  add_field(page, request, "name", "Name, or a part of it", "api.example.org");
  add_field(page, request, "type", "Type", "A and AAAA");
  add_field(page, request, "from", "As seen from", "namespace or IP address");
  page += "<button>Explain</button> <button name=\"search\" value=\"yes\">Search</button></form>\n";
  if (!request.argument("search").empty())
    add_found_names(page, daemon, request);
  else if (!request.argument("name").empty())
    add_explanation(page, daemon, request);
  end_section(page);
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

// The parts that change.
void add_live(std::string& page, const DaemonParts& daemon) {
  add_figures(page, daemon);
  add_charts(page, daemon);
  add_upstreams(page, daemon);
  add_sources(page, daemon);
  add_failing_names(page, daemon);
  add_top(page, daemon);
  add_changes(page, daemon);
  add_unresolved(page, daemon);
  add_findings(page, daemon);
  add_mesh_findings(page, daemon);
}

// Says for whom it answers, and at which addresses.
std::string describe_role(const DaemonParts& daemon) {
  const ClientConfig& client = daemon.config.client;
  std::string text = client.by_source_address
                         ? "answers each client by its address"
                         : "answers all clients as one of namespace " + client.default_identity.ns;
  std::string separator = ", at ";
  for (const auto& address : daemon.listening())
    text += std::exchange(separator, ", ") + address.to_string();
  return text;
}

}  // namespace

std::string status_page(const DaemonParts& daemon, const HttpRequest& request) {
  const Banner banner = banner_of(daemon);
  const std::string host = escaped(daemon.query_settings.server_identity);
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">"
      "<title>{0}: meshdns</title><style>{1}</style></head><body>\n"
      "<header><h1>{0}</h1><p>meshdns " MESHDNS_VERSION
      " {2}</p><p><span id=\"link\">as of now</span> <button id=\"pause\" "
      "hidden>Pause</button></p></header>\n<section id=\"state\" class=\"{3}\" role=\"status\">",
      host, kPageStyle, escaped(describe_role(daemon)), banner.state.css_class);
  add_banner(page, banner);
  page += "</section>\n";
  add_questions(page, daemon, request);
  page += "<main id=\"live\">\n";
  add_live(page, daemon);
  page += "</main>\n<footer>";
  add_links(page);
  page += "</footer><script src=\"/status.js\"></script></body></html>\n";
  return page;
}

std::string live_events(const DaemonParts& daemon) {
  std::string state;
  add_banner(state, banner_of(daemon));
  std::string tables;
  add_live(tables, daemon);
  std::string events;
  add_event(events, "state", state);
  add_event(events, "live", tables);
  return events;
}

}  // namespace meshdns::dnsd
