// SPDX-License-Identifier: Apache-2.0
// Text for a terminal that may come from anybody: none of its characters moves a cursor, changes
// the direction of writing or looks like another line.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "dnsd/log/journal.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

// The text with all of its lines printable().
inline std::string printable_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines += registry::printable(line, line.size()) + '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

// The same JSON in printable ASCII: other characters of its strings become \uXXXX, and octets that
// are not UTF-8 become U+FFFD.
inline std::string ascii_json(std::string_view json) {
  std::string out;
  const auto put = [&](std::uint32_t unit) { out += fmt::format("\\u{:04x}", unit); };
  while (!json.empty()) {
    const auto first = static_cast<unsigned char>(json.front());
    const std::size_t more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    std::string_view rest = json.substr(1, more);
    const bool is_valid = registry::is_utf8(json.substr(0, 1 + more));
    json.remove_prefix(is_valid ? 1 + more : 1);
    if (first < 0x7f) {
      out += static_cast<char>(first);
      continue;
    }
    std::uint32_t code = more == 0 ? first : first & (0x3fU >> more);
    for (const char octet : rest) code = code << 6 | (static_cast<unsigned char>(octet) & 0x3fU);
    if (!is_valid) code = 0xfffd;
    if (code < 0x10000) {
      put(code);
    } else {
      put(0xd800 + ((code - 0x10000) >> 10));
      put(0xdc00 + ((code - 0x10000) & 0x3ff));
    }
  }
  return out;
}

// JSON with line breaks and indentation, in ASCII; text that is no JSON as printable lines.
std::string indented_json(const std::string& json);

// Prints findings and errors, each on one line that no terminal could mistake for anything else.
// Every error, but no more warnings and notes than a person reads: those that are left out are
// counted.
class PrintedLines {
 public:
  explicit PrintedLines(std::ostream& out) : out_(out) {}
  // For the journal, each line begins with its priority (sd-daemon(3)).
  PrintedLines(std::ostream& out, bool is_journal) : out_(out), is_journal_(is_journal) {}
  PrintedLines(const PrintedLines&) = delete;
  PrintedLines& operator=(const PrintedLines&) = delete;
  ~PrintedLines() {
    if (left_out_ > 0) out_ << "and " << counted(left_out_, "more warning") << '\n';
  }
  void print(std::string_view line, LogLevel level = LogLevel::Error) {
    if (is_journal_) out_ << '<' << syslog_priority(level) << '>';
    out_ << registry::printable(line, kMaxLine) << '\n';
  }
  void print(const registry::Finding& finding) {
    if (finding.severity == registry::Severity::Error)
      print(finding.to_string());
    else if (has_room())
      print(finding.to_string(),
            finding.severity == registry::Severity::Note ? LogLevel::Info : LogLevel::Warn);
  }
  void print(const registry::MeshFinding& finding) {
    if (finding.weight == registry::Weight::Error || has_room()) print(finding.to_string());
  }

 private:
  static constexpr std::size_t kMaxLine = 2'000;
  static constexpr std::size_t kMaxWarnings = 1'000;

  bool has_room() {
    if (warnings_++ < kMaxWarnings) return true;
    ++left_out_;
    return false;
  }

  std::ostream& out_;
  const bool is_journal_ = false;
  std::size_t warnings_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace meshdns::dnsd
