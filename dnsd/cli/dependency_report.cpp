// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/dependency_report.hpp"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <optional>
#include <ostream>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/answer/json_members.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

// Limits the octets of one file: the rows of some hundred nodes.
constexpr std::size_t kMaxExport = std::size_t{512} << 20;

std::string text_in(const Value& object, const char* key) {
  const Value& text = member(object, key);
  return text.IsString() ? std::string(text.GetString(), text.GetStringLength()) : std::string();
}

// "2026-11-28T14:05:00Z".
std::optional<std::int64_t> time_in(const Value& object, const char* key) {
  std::tm time{};
  const std::string text = text_in(object, key);
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(::timegm(&time));
}

// "12 s ago", in the largest unit of which there are two at least.
std::string age_text(std::int64_t seconds) {
  constexpr std::pair<std::int64_t, std::string_view> kUnits[] = {
      {86'400, " days"}, {3'600, " h"}, {60, " min"}};
  for (const auto& [unit, name] : kUnits)
    if (seconds >= 2 * unit) return std::to_string(seconds / unit) + std::string(name) + " ago";
  return std::to_string(std::max<std::int64_t>(seconds, 0)) + " s ago";
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In DOT, a quotation mark and a backslash have one in front of them.
std::string dot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : registry::printable(text, kMaxShownName)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// In Mermaid, characters that mean something are written by their number.
std::string mermaid_quoted(std::string_view text) {
  constexpr std::string_view kSpecial = "\"#<>&;`\\";
  std::string quoted = "\"";
  for (const char c : registry::printable(text, kMaxShownName)) {
    if (kSpecial.find(c) == std::string_view::npos)
      quoted += c;
    else
      quoted += fmt::format("#{};", static_cast<unsigned char>(c));
  }
  return quoted + '"';
}

constexpr std::size_t kColumns = 6;
using Line = std::array<std::string, kColumns>;

// All columns but the last are aligned, the first to the right.
void print_line(std::ostream& out, const Line& line,
                const std::array<std::size_t, kColumns>& widths) {
  std::string text = fmt::format("{:>{}}", line[0], widths[0]);
  for (std::size_t i = 1; i < kColumns; ++i) text += fmt::format("  {:<{}}", line[i], widths[i]);
  text.erase(text.find_last_not_of(' ') + 1);
  out << "  " << text << '\n';
}

}  // namespace

Result<DependencyReport::Rows::value_type> DependencyReport::row_of(const Value& element) {
  const auto first = time_in(element, "first");
  const auto last = time_in(element, "last");
  std::string result = text_in(element, "result");
  if (!first || !last || result.empty() || !member(element, "questions").IsUint64())
    return fail("has no first, last, questions or result, as /dependencies gives them");
  Row row;
  row.questions = count_in(element, "questions");
  row.first = *first;
  row.last = *last;
  for (const Value& type : elements(member(element, "types"))) row.types.insert(shown(type));
  row.object = text_in(element, "object");
  row.rule = text_in(element, "rule");
  Key key{{text_in(element, "namespace"), text_in(element, "workload")},
          text_in(element, "host"),
          text_in(element, "hostNamespace"),
          std::move(result)};
  return Rows::value_type(std::move(key), std::move(row));
}

void DependencyReport::merge(Row& row, const Row& other) {
  if (row.questions == 0) {
    row = other;
    return;
  }
  if (other.last > row.last) {
    row.object = other.object;
    row.rule = other.rule;
  }
  row.questions += other.questions;
  row.first = std::min(row.first, other.first);
  row.last = std::max(row.last, other.last);
  row.types.insert(other.types.begin(), other.types.end());
}

Result<void> DependencyReport::add(const Value& page) {
  if (!member(page, "dependencies").IsArray())
    return fail("is not what `meshdnsd dependencies --json` prints: no list \"dependencies\"");
  std::vector<Rows::value_type> rows;
  for (const Value& element : elements(member(page, "dependencies"))) {
    auto row = row_of(element);
    if (!row)
      return fail("element " + std::to_string(rows.size() + 1) + " of \"dependencies\" " +
                  row.error().message);
    rows.push_back(*std::move(row));
  }
  for (const auto& [key, row] : rows) merge(rows_[key], row);
  for (const Value& element : elements(member(page, "workloads"))) {
    const auto since = time_in(element, "since").value_or(0);
    const auto [place, is_new] = workloads_.try_emplace(
        Workload(text_in(element, "namespace"), text_in(element, "workload")), Limits{since, 0});
    place->second.since = std::min(place->second.since, since);
    place->second.dropped += count_in(element, "dropped");
  }
  is_off_ = text_in(page, "record") == "off";
  return {};
}

Result<void> DependencyReport::add_file(const std::string& path) {
  const auto text = read_text_file(path, kMaxExport);
  if (!text) return std::unexpected(text.error());
  rapidjson::MemoryStream stream(text->data(), text->size());
  std::size_t pages = 0;
  for (;;) {
    const std::size_t next = text->find_first_not_of(" \t\r\n", stream.Tell());
    if (next == std::string::npos) break;
    // Not recursive: nesting without end must not end the program.
    constexpr unsigned kFlags = rapidjson::kParseStopWhenDoneFlag | rapidjson::kParseIterativeFlag;
    Document page;
    if (page.ParseStream<kFlags>(stream).HasParseError())
      return fail(path + ": is not JSON at octet " + std::to_string(page.GetErrorOffset() + 1) +
                  ": " + rapidjson::GetParseError_En(page.GetParseError()));
    ++pages;
    if (auto added = add(page); !added)
      return fail(path + ": page " + std::to_string(pages) + ": " + added.error().message);
  }
  if (pages == 0) return fail(path + ": is empty");
  return {};
}

void DependencyReport::keep(const DependencyArguments& options, std::int64_t now) {
  const auto is_of = [&](const Workload& workload) {
    return (options.ns.empty() || options.ns == workload.first) &&
           (options.workload.empty() || options.workload == workload.second);
  };
  const std::string host = canonical_host(options.host);
  const std::int64_t oldest = options.since ? now - options.since->count() : 0;
  std::erase_if(rows_, [&](const auto& row) {
    const Key& key = row.first;
    const bool is_at_host = host.empty() || key.host == host || is_below(key.host, host);
    return !is_of(key.workload) || !is_at_host || row.second.last < oldest ||
           (options.hidden && key.result != "hidden");
  });
  std::erase_if(workloads_, [&](const auto& workload) { return !is_of(workload.first); });
}

std::string DependencyReport::name_of(const Workload& workload) {
  if (workload.first.empty() && workload.second.empty()) return "(unknown clients)";
  return (workload.first.empty() ? "(unknown)" : workload.first) + "/" +
         (workload.second.empty() ? "(unknown)" : workload.second);
}

std::string DependencyReport::name_of(const Key& key) {
  if (key.host.empty()) return "(other names)";
  return key.host_ns.empty() ? key.host : key.host + " (" + key.host_ns + ")";
}

void DependencyReport::print_text(std::ostream& out, std::int64_t now) const {
  if (rows_.empty()) {
    out << (is_off_ ? "nothing is recorded (dependencies.record is off)\n"
                    : "no such question is recorded\n");
    return;
  }
  const Line heading = {"questions", "last", "first", "result", "types", "host"};
  std::array<std::size_t, kColumns> widths{};
  std::vector<Line> lines = {heading};
  for (const auto& [key, row] : rows_) {
    std::string host = registry::printable(
        key.host.empty() ? std::string("(other names)") : key.host, kMaxShownName);
    std::string more = registry::printable(row.object, kMaxShownName);
    if (!row.rule.empty()) more += ": " + registry::printable(row.rule, kMaxShownText);
    if (!more.empty()) host += "  " + more;
    lines.push_back({std::to_string(row.questions), age_text(now - row.last),
                     age_text(now - row.first), registry::printable(key.result), joined(row.types),
                     std::move(host)});
  }
  for (const Line& line : lines)
    for (std::size_t i = 0; i + 1 < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  const Workload* previous = nullptr;
  std::size_t next = 1;
  for (const auto& [key, row] : rows_) {
    if (previous == nullptr || *previous != key.workload) {
      out << (previous == nullptr ? "" : "\n")
          << registry::printable(name_of(key.workload), kMaxShownName);
      if (const auto limits = workloads_.find(key.workload); limits != workloads_.end()) {
        out << ", since " << time_text(limits->second.since);
        if (limits->second.dropped > 0)
          out << ", incomplete: " << counted(limits->second.dropped, "row")
              << " did not fit (dependencies.memory)";
      }
      out << '\n';
      print_line(out, heading, widths);
    }
    previous = &key.workload;
    print_line(out, lines[next++], widths);
  }
}

std::string DependencyReport::label_of(const Rows::value_type& row) {
  const std::string questions = std::to_string(row.second.questions);
  return row.first.result == "address" ? questions : questions + " " + row.first.result;
}

void DependencyReport::print_dot(std::ostream& out) const {
  out << "digraph dependencies {\n  rankdir=LR;\n  node [shape=box];\n";
  for (const auto& row : rows_)
    out << "  " << dot_quoted(name_of(row.first.workload)) << " -> "
        << dot_quoted(name_of(row.first)) << " [label=" << dot_quoted(label_of(row))
        << (row.first.result == "hidden" ? ", style=dashed" : "") << "];\n";
  out << "}\n";
}

void DependencyReport::print_mermaid(std::ostream& out) const {
  std::map<std::string, std::size_t> nodes;
  const auto node = [&](const std::string& name) {
    const auto [place, is_new] = nodes.try_emplace(name, nodes.size());
    const std::string id = "n" + std::to_string(place->second);
    return is_new ? id + "[" + mermaid_quoted(name) + "]" : id;
  };
  out << "flowchart LR\n";
  for (const auto& row : rows_) {
    out << "  " << node(name_of(row.first.workload))
        << (row.first.result == "hidden" ? " -.->|" : " -->|") << mermaid_quoted(label_of(row));
    out << "| " << node(name_of(row.first)) << '\n';
  }
}

std::string DependencyReport::to_json() const {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  put_list(json, "dependencies", rows_, [&](const auto& pair) {
    const auto& [key, row] = pair;
    json.StartObject();
    put(json, "namespace", key.workload.first);
    put(json, "workload", key.workload.second);
    put(json, "hostNamespace", key.host_ns);
    put(json, "host", key.host);
    put(json, "object", row.object);
    put(json, "first", time_text(row.first));
    put(json, "last", time_text(row.last));
    put(json, "questions", row.questions);
    put_list(json, "types", row.types, [&](const std::string& type) { put(json, type); });
    put(json, "result", key.result);
    put(json, "rule", row.rule);
    json.EndObject();
  });
  put_list(json, "workloads", workloads_, [&](const auto& pair) {
    const auto& [workload, limits] = pair;
    json.StartObject();
    put(json, "namespace", workload.first);
    put(json, "workload", workload.second);
    put(json, "since", time_text(limits.since));
    put(json, "dropped", limits.dropped);
    put_bool(json, "incomplete", limits.dropped > 0);
    json.EndObject();
  });
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace meshdns::dnsd
