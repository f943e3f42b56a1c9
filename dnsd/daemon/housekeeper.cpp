// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/housekeeper.hpp"

#include <uv.h>

#include <algorithm>
#include <string>
#include <utility>

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

std::vector<OverloadWatch::Warning> OverloadWatch::observe(std::span<const Degradation> kinds,
                                                           Time now) {
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

void Housekeeper::tick(Time now) {
  parts_.engine.tick(now);
  start_memory_.tick();
  parts_.log.write_fold_counts();
  tell_of_overload(now);
  parts_.workers.tell_of_limited_clients();
  tell_of_admin_clients(parts_.admin, admin_counts_);
  tell_of_admin_clients(parts_.metrics, metrics_counts_);
  keep_history(now);
}

void Housekeeper::tell_of_overload(Time now) {
  const auto degradations = degradations_of(parts_.workers, parts_.query_logging,
                                            parts_.engine.forwarding->cache, parts_.log);
  for (const auto& warning : overload_.observe(degradations, now))
    parts_.log.warn(warning.what, {{"count", warning.count}});
}

void Housekeeper::tell_of_admin_clients(const AdminEndpoint& endpoint, AdminCounts& counts) {
  const HttpCounters& counters = endpoint.counters();
  const AdminCounts now{counters.accept_failures, counters.overdue, counters.evicted,
                        counters.denied};
  const AdminCounts before = std::exchange(counts, now);
  const std::string key = std::string(endpoint.key()) + ": ";
  Log& log = parts_.log;
  if (now.accept_failures != before.accept_failures)
    log.write_folded(LogLevel::Warn,
                     key + "cannot accept a connection for lack of file descriptors or memory");
  if (now.overdue != before.overdue)
    log.write_folded(LogLevel::Warn, key + "closed a connection that took too long");
  if (now.evicted != before.evicted)
    log.write_folded(LogLevel::Warn, key + "too many connections; closed the oldest one");
  if (now.denied != before.denied)
    log.write_folded(LogLevel::Warn, key + "refused a wrong user name or password");
}

// Updates the figures of the last minutes on the status page.
void Housekeeper::keep_history(Time now) {
  load_.observe(parts_.workers.totals(), now);
  const auto upstreams = [this] {
    return parts_.engine.forwarding->upstreams.status(uv_hrtime() / 1'000'000);
  };
  if (latency_.is_due(now)) latency_.observe(upstreams(), now);
  if (upstreams_.is_due(now)) upstreams_.observe(upstreams(), now);
  if (--seconds_to_fade_ > 0) return;
  seconds_to_fade_ = kFadeSeconds;
  parts_.workers.fade_failing_names();
}

}  // namespace meshdns::dnsd
