// The overview that a person opens first: tables and links, no scripts.
#include <chrono>
#include <string>
#include <string_view>

#include "dnsd/daemon/admin_routes.hpp"

namespace meshdns::dnsd {
namespace {

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

void add_row(std::string& page, std::initializer_list<std::string> cells) {
  page += "<tr>";
  for (const auto& cell : cells) page += "<td>" + escaped(cell) + "</td>";
  page += "</tr>\n";
}

void add_heading(std::string& page, std::string_view heading,
                 std::initializer_list<std::string_view> columns) {
  page += "<h2>" + escaped(heading) + "</h2><table>\n<tr>";
  for (const auto column : columns) page += "<th>" + escaped(column) + "</th>";
  page += "</tr>\n";
}

void add_links(std::string& page) {
  page += "<p>";
  for (const std::string_view path : {"/healthz", "/readyz", "/metrics", "/registry/services",
                                      "/registry/endpoints", "/registry/vips", "/registry/findings",
                                      "/resolver", "/upstreams", "/cache", "/config", "/log/level"})
    page += "<a href=\"" + std::string(path) + "\">" + std::string(path) + "</a> ";
  page +=
      "</p>\n<p><code>/explain?name=NAME&amp;type=TYPE&amp;from=NAMESPACE-OR-ADDRESS</code></p>\n";
}

}  // namespace

std::string status_page(Daemon& daemon) {
  using std::chrono::duration_cast, std::chrono::seconds, std::chrono::steady_clock;
  const Readiness readiness = daemon.readiness();
  const auto& snapshot = *daemon.registry().current();
  const auto uptime = duration_cast<seconds>(steady_clock::now() - daemon.started()).count();
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>meshdns</title>"
      "<style>body{font-family:sans-serif;margin:2em}td,th{text-align:left;padding:.2em "
      "1em}</style></head><body>\n<h1>meshdns " MESHDNS_VERSION "</h1>\n";
  add_links(page);
  add_heading(page, "State", {});
  add_row(page, {"ready", readiness.ready ? "yes" : "no"});
  for (const auto& reason : readiness.reasons) add_row(page, {"", reason});
  add_row(page, {"up for", std::to_string(uptime) + " s"});
  add_row(page, {"generation", std::to_string(snapshot.generation)});
  add_row(page, {"resources", std::to_string(snapshot.resources.size())});
  add_row(page, {"hosts", std::to_string(snapshot.hosts.size() + snapshot.wildcards.size())});
  for (const auto& address : daemon.listening()) add_row(page, {"listening", address.to_string()});
  page += "</table>\n";
  add_heading(page, "Sources", {"source", "complete", "origins", "broken", "last error"});
  for (const auto& source : daemon.sources())
    add_row(page, {source.name, source.complete ? "yes" : "no", std::to_string(source.origins),
                   std::to_string(source.broken), source.last_error});
  page += "</table>\n</body></html>\n";
  return page;
}

}  // namespace meshdns::dnsd
