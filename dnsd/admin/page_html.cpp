// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/page_html.hpp"

#include <fmt/format.h>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

std::string escaped(std::string_view text) {
  if (!registry::is_utf8(text)) return escaped(registry::as_utf8(text));
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
        // A terminal that shows the page obeys control octets of a file's name.
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
          out += registry::printable({&c, 1});
        else
          out += c;
    }
  }
  return out;
}

void add_cells(std::string& page, std::initializer_list<std::string> cells) {
  for (const auto& cell : cells) page += "<td>" + escaped(cell) + "</td>";
}

void add_row(std::string& page, std::initializer_list<std::string> cells, bool bad) {
  page += bad ? "<tr class=\"bad\">" : "<tr>";
  add_cells(page, cells);
  page += "</tr>\n";
}

void begin_section(std::string& page, std::string_view heading, bool wide) {
  page += wide ? "<section class=\"wide\">" : "<section>";
  page += "<h2>" + escaped(heading) + "</h2>\n";
}

void end_section(std::string& page) { page += "</section>\n"; }

void begin_table(std::string& page, std::string_view heading,
                 std::initializer_list<std::string_view> columns, bool wide) {
  begin_section(page, heading, wide);
  page += "<table>\n<tr>";
  for (const auto column : columns) page += "<th scope=\"col\">" + escaped(column) + "</th>";
  page += "</tr>\n";
}

void end_table(std::string& page) {
  page += "</table>";
  end_section(page);
}

void end_table(std::string& page, bool is_cut, std::string_view path) {
  if (is_cut) page += fmt::format("<tr><td><a href=\"{}\">all</a></td></tr>\n", path);
  end_table(page);
}

std::string ago(std::chrono::steady_clock::time_point then) {
  using namespace std::chrono;
  const auto seconds = duration_cast<std::chrono::seconds>(steady_clock::now() - then).count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7'200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172'800) return fmt::format("{} h", seconds / 3'600);
  return fmt::format("{} days", seconds / 86400);
}

}  // namespace meshdns::dnsd
