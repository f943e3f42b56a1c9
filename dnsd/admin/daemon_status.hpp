// SPDX-License-Identifier: Apache-2.0
// The state of the daemon in plain values, for the pages of the admin endpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dnsd/net/worker.hpp"
#include "dnsd/query/query_counters.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/source/source.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// The problems of the daemon, a line each.
struct Readiness {
  std::vector<std::string> not_ready;  // names may be missing or unanswered: clients should wait
  std::vector<std::string> degraded;   // everything is answered, with old data or without upstreams

  bool is_ready() const { return not_ready.empty(); }
};

// The counters of one worker; any thread may read them.
struct WorkerStatus {
  const WorkerCounters& net;
  const QueryCounters& query;
  const ForwardCounters& forward;
};

// Answers in the kernel (server.kernel_answers).
struct KernelAnswersStatus {
  bool is_open = false;
  std::string trouble;                  // why not, or what is left out; empty: nothing
  std::vector<std::uint64_t> counters;  // by meshdns_counter, of the maps; empty: not open
};

// All workers.
struct WorkersStatus {
  std::size_t count = 0;
  std::vector<WorkerStatus> each;  // and one more for the program in the kernel
  std::size_t stuck = 0;           // their event loops have been blocked for Liveness::kStuckAfter
  std::size_t avoided = 0;         // they get no new queries
};

// One source.
struct SourceReport {
  registry::SourceStatus status;
  std::chrono::steady_clock::time_point last_change;  // it has delivered nothing new since
};

// The last reload of the configuration.
struct ReloadStatus {
  bool ok = true;
  std::uint64_t reloads = 0;
  std::uint64_t failures = 0;
  std::int64_t last_success_unix = 0;
  std::vector<std::string> findings;  // of the last reload; each is `PATH:LINE: error: ...`
};

// The file of the registry in state_dir.
struct StateStatus {
  std::int64_t written_unix = 0;  // the last good write of this run; 0 = none yet
  std::uint64_t bytes = 0;        // of that file
  std::uint64_t failures = 0;     // writes that failed
  std::string trouble;            // why the last write failed; empty if it did not
};

struct FeedCounters {
  std::uint64_t commits = 0;
  std::uint64_t changed_resources = 0;
  std::uint64_t changed_hosts = 0;
  std::uint64_t errors = 0;  // findings, since the start
  std::uint64_t warnings = 0;
};

// The last analysis across resources.
struct AnalysisStatus {
  registry::AnalysisReport report;
  double seconds = 0;  // that it took
};

// Frames since the start.
struct DnstapCounts {
  std::uint64_t written = 0;
  std::uint64_t dropped = 0;
};

// The query log and dnstap.
struct QueryLogCounts {
  std::uint64_t dropped_lines = 0;
  DnstapCounts dnstap;
};

}  // namespace meshdns::dnsd
