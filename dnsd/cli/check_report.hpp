// SPDX-License-Identifier: Apache-2.0
// The findings of `meshdnsd check` as lines for people, or as JSON or SARIF 2.1.0 for programs
// (docs/reference/findings.md).
#pragma once

#include <iosfwd>
#include <memory>

#include "dnsd/cli/arguments.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/finding.hpp"
#include "registry/source/check.hpp"

namespace meshdns::dnsd {

class CheckReport {
 public:
  virtual ~CheckReport() = default;
  virtual void add(const registry::Finding& finding) = 0;
  virtual void add(const registry::MeshFinding& finding) = 0;
  // The last call.
  virtual void end(const registry::CheckSummary& summary) = 0;
};

// REQUIRES: `out` outlives the report.
std::unique_ptr<CheckReport> make_check_report(CheckFormat format, std::ostream& out);

}  // namespace meshdns::dnsd
