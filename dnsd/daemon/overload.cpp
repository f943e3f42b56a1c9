// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/overload.hpp"

#include <algorithm>
#include <atomic>

namespace meshdns::dnsd {
namespace {

// A cache that is full replaces entries all the time.  It is too small where in 10 s more than a
// tenth of them go; below this number of them that happens to any.
constexpr std::uint64_t kFewEvictions = 1'000;

std::uint64_t sum_of(std::span<const WorkerStatus> workers, Counter WorkerCounters::* counter) {
  std::uint64_t total = 0;
  for (const WorkerStatus& worker : workers) total += (worker.net.*counter).value();
  return total;
}
std::uint64_t sum_of(std::span<const WorkerStatus> workers, Counter QueryCounters::* counter) {
  std::uint64_t total = 0;
  for (const WorkerStatus& worker : workers) total += (worker.query.*counter).value();
  return total;
}
std::uint64_t sum_of(std::span<const WorkerStatus> workers,
                     std::atomic<std::uint64_t> ForwardCounters::* counter) {
  std::uint64_t total = 0;
  for (const WorkerStatus& worker : workers)
    total += (worker.forward.*counter).load(std::memory_order_relaxed);
  return total;
}

Degradation of_cache(const CacheStatistics& cache) {
  Degradation kind{"cache.size is too small: removed entries before they expired"};
  std::uint64_t entries = 0;
  for (const auto* of : {&cache.positive, &cache.negative, &cache.failure}) {
    kind.total += of->evictions;
    entries += of->entries;
  }
  kind.tolerated = std::max(kFewEvictions, entries / 10);
  return kind;
}

}  // namespace

std::vector<Degradation> degradations_of(const WorkerPool& pool, const QueryLogging& query_logging,
                                         const Cache& cache, const Log& log) {
  const std::vector<WorkerStatus> workers = pool.statuses();
  const QueryLogCounts query_logs = query_logging.counts();
  const auto net = [&](Counter WorkerCounters::* counter) { return sum_of(workers, counter); };
  return {
      {"dropped queries because the kernel's receive buffer was full",
       net(&WorkerCounters::udp_socket_overflow)},
      {"cannot read queries from a socket", net(&WorkerCounters::udp_receive_errors)},
      {"lost responses because the kernel did not accept them",
       net(&WorkerCounters::udp_send_errors)},
      {"refused TCP connections: server.tcp.max_connections reached",
       net(&WorkerCounters::tcp_rejected_total)},
      {"refused TCP connections: a client reached server.tcp.max_connections_per_client",
       net(&WorkerCounters::tcp_rejected_client)},
      {"refused TCP connections: the remaining file descriptors are reserved",
       net(&WorkerCounters::tcp_rejected_files)},
      {"cannot accept TCP connections", net(&WorkerCounters::tcp_accept_errors)},
      {"closed idle TCP connections to make room for new ones", net(&WorkerCounters::tcp_evicted)},
      {"closed TCP connections: clients did not send a complete query in time",
       net(&WorkerCounters::tcp_closed_slow_query)},
      {"closed TCP connections: clients did not read their responses",
       net(&WorkerCounters::tcp_closed_slow_reader)},
      {"closed TCP connections: stalled clients together held too much memory",
       net(&WorkerCounters::tcp_closed_backlog)},
      {"answered queries with SERVFAIL: too many queries are waiting",
       sum_of(workers, &QueryCounters::rejected_waiting)},
      {"answered queries with SERVFAIL: upstream.max_in_flight reached",
       sum_of(workers, &ForwardCounters::rejected)},
      {"skipped upstream servers for lack of a socket, a port, memory or a place on a connection",
       sum_of(workers, &ForwardCounters::shortages)},
      of_cache(cache.statistics()),
      {"dropped log lines: the reader is too slow", log.dropped()},
      {"dropped query log lines: the reader is too slow", query_logs.dropped_lines},
      {"dropped dnstap frames: the reader is too slow", query_logs.dnstap.dropped},
  };
}

std::vector<Overload::Warning> Overload::observe(std::span<const Degradation> kinds, Time now) {
  std::vector<Warning> warnings;
  kinds_.resize(kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Kind& known = kinds_[i];
    const std::uint64_t count = kinds[i].total - known.counted;
    const bool is_due = known.since == Time{} || now - known.since >= kPause;
    if (count > kinds[i].tolerated && is_due)
      warnings.push_back({kinds[i].what, count});
    else if (!is_due || count == 0)
      continue;
    known = {kinds[i].total, now};
  }
  return warnings;
}

}  // namespace meshdns::dnsd
