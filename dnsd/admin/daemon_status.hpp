// SPDX-License-Identifier: Apache-2.0
// The state of the daemon in plain values, for the pages of the admin endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/net/worker.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/base/socket_address.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// The counters of one worker; any thread may read them.
struct WorkerStatus {
  const WorkerCounters& net;
  const QueryCounters& query;
  const ForwardCounters& forward;
};

// Answers in the kernel (server.kernel_answers).
struct KernelAnswersStatus {
  const KernelFeed* feed = nullptr;     // null: it answers nothing
  std::vector<std::uint64_t> counters;  // by meshdns_counter, of the maps; empty: not open
};

// All workers.
struct WorkersStatus {
  std::size_t count = 0;
  std::vector<WorkerStatus> each;  // and one more for the program in the kernel
  std::size_t stuck = 0;           // their event loops have been blocked for Liveness::kStuckAfter
  std::size_t avoided = 0;         // they get no new queries
};

// The last reload of the configuration.
struct ReloadStatus {
  bool ok = true;
  std::uint64_t reloads = 0;
  std::uint64_t failures = 0;
  std::int64_t last_success_unix = 0;
  std::vector<std::string> findings;  // of the last reload; each is `PATH:LINE: error: ...`
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

struct DaemonStatus {
  WorkersStatus workers;
  KernelAnswersStatus kernel;
  QueryLogCounts query_logs;
  std::vector<SocketAddress> listening;
  std::vector<std::string> unbound;  // addresses of the configuration, each with the reason
};

// Recent queries, of all workers.
struct FrequentQueries {
  TopReport top;
  std::vector<FailingNames::Entry> failing;  // those that got no answer
  // Names that REGISTRY_ONLY refused, or would refuse (NOERROR), since the start.
  std::vector<FailingNames::Entry> outside;
};

}  // namespace meshdns::dnsd
