// The overview that a person opens first: tables, charts as inline SVG, one form; no scripts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <string_view>

#include "dnsd/daemon/admin_routes.hpp"
#include "dnsd/log/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kFailingNames = 10;
constexpr int kChartWidth = 600;
constexpr int kChartHeight = 110;
constexpr std::string_view kStyle =
    "body{font-family:sans-serif;margin:1.5em;max-width:80em;color:#222}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin:1.4em 0 .3em}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.15em 1em .15em 0;"
    "border-bottom:1px solid #ddd;vertical-align:top}"
    "svg{background:#f6f6f6;max-width:100%}figure{display:inline-block;margin:0 1em 0 0}"
    "figcaption{font-size:.85em}polyline{fill:none;stroke-width:1.5}"
    ".a{stroke:#06c;color:#06c}.b{stroke:#c30;color:#c30}.bad{color:#c30;font-weight:bold}"
    "pre{background:#f6f6f6;padding:.6em;overflow:auto}input{margin-right:.6em}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void add_row(std::string& page, std::initializer_list<std::string> cells, bool bad = false) {
  page += bad ? "<tr class=\"bad\">" : "<tr>";
  for (const auto& cell : cells) page += "<td>" + escaped(cell) + "</td>";
  page += "</tr>\n";
}

void add_heading(std::string& page, std::string_view heading,
                 std::initializer_list<std::string_view> columns) {
  page += "<h2>" + escaped(heading) + "</h2><table>\n<tr>";
  for (const auto column : columns) page += "<th>" + escaped(column) + "</th>";
  page += "</tr>\n";
}

std::string ago(std::chrono::steady_clock::time_point then) {
  using namespace std::chrono;
  const auto seconds = duration_cast<std::chrono::seconds>(steady_clock::now() - then).count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

// --- charts --------------------------------------------------------------------------------------

using Points = std::deque<LoadHistory::Point>;
using Value = double LoadHistory::Point::*;

struct Line {
  const char* css_class;
  const char* name;
  Value value;
};

double highest(const Points& points, Value value) {
  double top = 0;
  for (const auto& point : points) top = std::max(top, point.*value);
  return top;
}

// The newest point at the right edge, one pixel in two a second.
void add_line(std::string& page, const Points& points, const Line& line, double top) {
  const double step = static_cast<double>(kChartWidth) / (LoadHistory::kPoints - 1);
  page += fmt::format("<polyline class=\"{}\" points=\"", line.css_class);
  double x = kChartWidth - step * static_cast<double>(points.size() - 1);
  for (const auto& point : points) {
    page +=
        fmt::format("{:.1f},{:.1f} ", x, (kChartHeight - 2) * (1 - point.*line.value / top) + 1);
    x += step;
  }
  page += "\"/>";
}

void add_chart(std::string& page, std::string_view title, std::string_view unit,
               const Points& points, std::initializer_list<Line> lines) {
  double top = 0;
  for (const Line& line : lines) top = std::max(top, highest(points, line.value));
  page += fmt::format(
      "<figure><svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">"
      "<title>{2}</title>",
      kChartWidth, kChartHeight, escaped(title));
  if (!points.empty())
    for (const Line& line : lines) add_line(page, points, line, top > 0 ? top : 1);
  page += fmt::format("</svg><figcaption>{}, last {} min, highest {:.4g} {}:", escaped(title),
                      LoadHistory::kPoints / 60, top, unit);
  for (const Line& line : lines)
    page += fmt::format(" <span class=\"{}\">{} {:.4g}</span>", line.css_class, line.name,
                        points.empty() ? 0.0 : points.back().*line.value);
  page += "</figcaption></figure>\n";
}

// --- the parts -----------------------------------------------------------------------------------

void add_state(std::string& page, const Daemon& daemon) {
  const Readiness readiness = daemon.readiness();
  const auto& snapshot = *daemon.registry().current();
  add_heading(page, "State", {});
  add_row(page, {"ready", readiness.ready ? "yes" : "no"}, !readiness.ready);
  for (const auto& reason : readiness.reasons) add_row(page, {"", reason}, true);
  if (const auto complaint = daemon.complaint(); !complaint.empty())
    add_row(page, {"workers", complaint}, true);
  add_row(page, {"up for", ago(daemon.started())});
  add_row(page, {"resources", std::to_string(snapshot.resources.size())});
  add_row(page, {"hosts", std::to_string(snapshot.hosts.size() + snapshot.wildcards.size())});
  add_row(page, {"generation", std::to_string(snapshot.generation)});
  for (const auto& address : daemon.listening()) add_row(page, {"listening", address.to_string()});
  page += "</table>\n";
}

void add_charts(std::string& page, const Daemon& daemon) {
  using Point = LoadHistory::Point;
  const Points& points = daemon.load().points();
  page += "<h2>Load</h2>\n";
  add_chart(page, "Answers per second", "a second", points,
            {{"a", "answers", &Point::responses_per_second},
             {"b", "SERVFAIL", &Point::failures_per_second}});
  add_chart(page, "Latency", "ms", points,
            {{"a", "median", &Point::median_ms}, {"b", "99 %", &Point::p99_ms}});
}

void add_sources(std::string& page, const Daemon& daemon) {
  add_heading(page, "Sources",
              {"source", "read", "last change", "origins", "broken", "last error"});
  for (const auto& source : daemon.sources())
    add_row(page,
            {source.name, source.complete ? "yes" : "not yet",
             ago(daemon.last_change(source.name)) + " ago", std::to_string(source.origins),
             std::to_string(source.broken), source.last_error},
            !source.complete || source.broken > 0 || !source.last_error.empty());
  page += "</table>\n";
}

void add_upstreams(std::string& page, Daemon& daemon) {
  add_heading(page, "Upstream servers",
              {"server", "health", "round trip", "queries", "answers", "timeouts", "last error"});
  for (const auto& upstream : upstream_status(daemon))
    add_row(
        page,
        {upstream.name, std::string(health_name(upstream)),
         fmt::format("{:.2f} ms", upstream.rtt_us / 1e3), std::to_string(upstream.queries),
         std::to_string(upstream.answers), std::to_string(upstream.timeouts), upstream.last_error},
        health_name(upstream) != "up");
  page += "</table>\n";
}

void add_failing_names(std::string& page, const Daemon& daemon) {
  add_heading(page, "Names without an answer, lately", {"name", "rcode", "times"});
  for (const auto& entry : daemon.failing_names(kFailingNames))
    add_row(page, {printable(entry.name) + ".", std::string(wire::to_string(entry.rcode)),
                   std::to_string(entry.count)});
  page += "</table>\n";
}

void add_field(std::string& page, const HttpRequest& request, std::string_view name,
               std::string_view hint) {
  page += fmt::format("<label>{0} <input name=\"{0}\" placeholder=\"{1}\" value=\"{2}\"></label>",
                      name, hint, escaped(request.argument(name)));
}

void add_explanation(std::string& page, Daemon& daemon, const HttpRequest& request) {
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
  for (const std::string_view path : {"/healthz", "/readyz", "/metrics", "/registry/services",
                                      "/registry/endpoints", "/registry/vips", "/registry/findings",
                                      "/resolver", "/upstreams", "/cache", "/config", "/log/level"})
    page += fmt::format("<a href=\"{0}\">{0}</a> ", path);
  page += "</p>\n";
}

}  // namespace

std::string status_page(Daemon& daemon, const HttpRequest& request) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>meshdns</title>";
  page +=
      fmt::format("<style>{}</style></head><body>\n<h1>meshdns " MESHDNS_VERSION "</h1>\n", kStyle);
  add_explanation(page, daemon, request);
  add_state(page, daemon);
  add_charts(page, daemon);
  add_sources(page, daemon);
  add_upstreams(page, daemon);
  add_failing_names(page, daemon);
  add_links(page);
  page += "</body></html>\n";
  return page;
}

}  // namespace meshdns::dnsd
