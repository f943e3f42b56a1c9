// SPDX-License-Identifier: Apache-2.0
// The metrics by what they are about; each function adds those of one group.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/metric_collection.hpp"
#include "resolver/cache/cache.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

// `read` of each worker, added up.
template <typename Read>
std::uint64_t sum_over(const std::vector<WorkerStatus>& workers, Read read) {
  std::uint64_t total = 0;
  for (const auto& worker : workers) total += read(worker);
  return total;
}

// The Unix time of a moment of the monotonic clock.
double unix_time(std::chrono::steady_clock::time_point then);

// Queries and responses, and the connections and datagrams that they come in.
void collect_queries(MetricCollection& to, const std::vector<WorkerStatus>& workers);
// The cache, and questions for upstream servers.
void collect_forwarding(MetricCollection& to, const CacheStatistics& cache,
                        const std::vector<WorkerStatus>& workers,
                        const std::vector<UpstreamStatus>& upstreams);
// Answers in the kernel.
void collect_kernel_answers(MetricCollection& to, const KernelAnswersStatus& kernel);
// Sources of resources; those of clusters and of istiod where there are any.
void collect_sources(MetricCollection& to, const std::vector<SourceReport>& sources);

}  // namespace meshdns::dnsd
