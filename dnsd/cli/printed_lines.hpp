// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ostream>
#include <string_view>

#include "dnsd/log/journal.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

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
    if (left_out_ > 0) out_ << "and " << left_out_ << " more warnings\n";
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
