// SPDX-License-Identifier: Apache-2.0
// Looks for mistakes across the objects of a snapshot (docs/findings.md).  The rules use the same
// snapshot as the answers do, so that both agree on who sees what.
#pragma once

#include <functional>
#include <vector>

#include "registry/analysis/mesh_finding.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

struct AnalysisReport {
  // By place; at most MeshFindings::kMaxOfKind of each kind.
  std::vector<MeshFinding> findings;
  FindingCounts counts{};  // all that there are, by kind
};

// Any thread.  `is_interrupted` is asked now and then; once it returns true, the analysis ends soon
// with what it has.  Decodes each object at most twice and keeps few of them: 100,000
// ServiceEntries take some megabytes for the time of the call.
AnalysisReport analyse(
    const Snapshot& snapshot, const std::function<bool()>& is_interrupted = [] { return false; });

}  // namespace meshdns::registry
