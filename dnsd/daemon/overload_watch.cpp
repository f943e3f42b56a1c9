#include "dnsd/daemon/overload_watch.hpp"

#include <algorithm>

#include "dnsd/daemon/daemon.hpp"

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
  Degradation kind{"cache.size is too small: entries are given up before their end"};
  std::uint64_t entries = 0;
  for (const auto* of : {&cache.positive, &cache.negative, &cache.failure}) {
    kind.total += of->evictions;
    entries += of->entries;
  }
  kind.tolerated = std::max(kFewEvictions, entries / 10);
  return kind;
}

}  // namespace

std::vector<Degradation> degradations_of(Daemon& daemon) {
  const std::vector<WorkerStatus> workers = daemon.workers();
  const auto net = [&](Counter WorkerCounters::* counter) { return sum_of(workers, counter); };
  return {
      {"queries are lost: the kernel's receive buffer is full",
       net(&WorkerCounters::udp_socket_overflow)},
      {"queries cannot be read from a socket", net(&WorkerCounters::udp_receive_errors)},
      {"answers are lost: the kernel does not take them", net(&WorkerCounters::udp_send_errors)},
      {"TCP connections are refused: server.tcp.max_connections are open",
       net(&WorkerCounters::tcp_rejected_total)},
      {"TCP connections are refused: a client has server.tcp.max_connections_per_client",
       net(&WorkerCounters::tcp_rejected_client)},
      {"TCP connections are refused: too few file descriptors are left",
       net(&WorkerCounters::tcp_rejected_files)},
      {"TCP connections cannot be accepted", net(&WorkerCounters::tcp_accept_errors)},
      {"idle TCP connections are closed to make room for others",
       net(&WorkerCounters::tcp_evicted)},
      {"TCP connections are closed: a query takes too long to come",
       net(&WorkerCounters::tcp_closed_slow_query)},
      {"TCP connections are closed: answers are not read",
       net(&WorkerCounters::tcp_closed_slow_reader)},
      {"TCP connections are closed: those that stall hold too much together",
       net(&WorkerCounters::tcp_closed_backlog)},
      {"queries are answered with SERVFAIL: too many wait already",
       sum_of(workers, &QueryCounters::rejected_waiting)},
      {"queries are answered with SERVFAIL: upstream.max_in_flight questions are under way",
       sum_of(workers, &ForwardCounters::rejected)},
      {"upstream servers are not asked for want of a socket, a port or memory",
       sum_of(workers, &ForwardCounters::shortages)},
      of_cache(daemon.cache().statistics()),
      {"lines of the log are lost: nobody reads them in time", daemon.log().dropped()},
      {"lines of the query log are lost: nobody reads them in time", daemon.query_log_dropped()},
      {"answers are missing in dnstap: nobody reads them in time", daemon.dnstap_counts().dropped},
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

}  // namespace meshdns::dnsd
