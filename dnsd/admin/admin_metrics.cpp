// SPDX-License-Identifier: Apache-2.0
// The metrics, collected when they are asked for: nothing is counted twice, and what is counted
// costs a query nothing but its worker's own counters.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/metric_collection.hpp"
#include "dnsd/admin/metric_groups.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/durable_file.hpp"

namespace meshdns::dnsd {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void add_memory(MetricCollection& to) {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t virtual_pages = 0;
  std::uint64_t resident_pages = 0;
  if (!(statm >> virtual_pages >> resident_pages)) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  to.gauges("process_virtual_memory_bytes", "Size of the virtual memory.")
      .add(virtual_pages * page);
  to.gauges("process_resident_memory_bytes", "Size of the resident memory.")
      .add(resident_pages * page);
}

void add_descriptors(MetricCollection& to) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return;
  // One is that of the directory.
  to.gauges("process_open_fds", "Number of open file descriptors.")
      .add(static_cast<double>(std::distance(begin(open), end(open)) - 1));
}

// The metrics of the process that Prometheus' client libraries have, under the same names.
// Adds the metrics that /proc has.  `started`: Unix time of the start.
void collect_process(MetricCollection& to, double started) {
  to.gauges("process_start_time_seconds", "Unix time of the start of the process.").add(started);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    to.counters("process_cpu_seconds_total", "CPU time of the process in user and kernel mode.")
        .add(seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    to.gauges("process_resident_memory_max_bytes", "Largest size of the resident memory so far.")
        .add(1024.0 * static_cast<double>(usage.ru_maxrss));
  }
  add_memory(to);
  add_descriptors(to);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    to.gauges("process_max_fds", "Limit of open file descriptors.")
        .add(static_cast<double>(limit.rlim_cur));
}

}  // namespace

void collect_kernel_answers(MetricCollection& to, const KernelAnswersStatus& kernel) {
  to.gauges("kernel_answers", "1 while the kernel may answer queries (server.kernel_answers).")
      .add(kernel.is_open ? 1.0 : 0.0);
  to.counters("kernel_passed_total",
              "Number of queries that the program in the kernel left to the daemon, by reason.");
  constexpr std::pair<meshdns_counter, std::string_view> kReasons[] = {
      {MESHDNS_PASSED_OTHER, "form"},    {MESHDNS_PASSED_CLIENT, "client"},
      {MESHDNS_PASSED_ROUTE, "route"},   {MESHDNS_PASSED_ABSENT, "absent"},
      {MESHDNS_PASSED_OLD, "changed"},   {MESHDNS_PASSED_SIZE, "size"},
      {MESHDNS_PASSED_ASLEEP, "asleep"}, {MESHDNS_PASSED_LIMIT, "limit"}};
  for (const auto& [counter, reason] : kReasons)
    to.add(kernel.counters.empty() ? 0 : kernel.counters[counter],
           {{"reason", std::string(reason)}});
}

double unix_time(std::chrono::steady_clock::time_point then) {
  const auto age = std::chrono::steady_clock::now() - then;
  const auto moment = std::chrono::system_clock::now() - age;
  return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

namespace {

void collect_registry(MetricCollection& to, const DaemonParts& daemon) {
  const auto& snapshot = *daemon.registry.current();
  const FeedCounters& feed = daemon.feed;
  to.gauges("registry_resources", "Number of objects in the registry.")
      .add(snapshot.resources.size());
  to.gauges("registry_hosts", "Number of host names in the registry, wildcards included.")
      .add(snapshot.hosts.size() + snapshot.wildcards.size());
  to.gauges("registry_generation", "Generation number of the snapshot in use.")
      .add(snapshot.generation);
  to.gauges("registry_from_snapshot", "1 while the saved state of an earlier run is in use.")
      .add(snapshot.sources.from_state_dir ? 1.0 : 0.0);
  const StateStatus state = daemon.state();
  to.gauges("snapshot_write_timestamp_seconds",
            "Unix time of the last write of the registry to state_dir; 0 if there was none in this "
            "run.")
      .add(static_cast<double>(state.written_unix));
  to.gauges("snapshot_bytes", "Size of the registry's file in state_dir.").add(state.bytes);
  to.counters("snapshot_write_failures_total",
              "Number of failed writes of the registry to state_dir.")
      .add(state.failures);
  to.counters("registry_commits_total", "Number of transactions applied to the registry.")
      .add(feed.commits);
  to.counters("registry_findings_total", "Number of findings in resources, by severity.")
      .add(feed.errors, {{"severity", "error"}})
      .add(feed.warnings, {{"severity", "warning"}});
  to.gauges("registry_analysis_findings",
            "Number of findings across resources (docs/reference/findings.md), by id.");
  const auto& counts = daemon.analysis.report.counts;
  for (const registry::FindingKind kind : registry::finding_kinds())
    to.add(static_cast<double>(counts.at(static_cast<std::size_t>(kind))),
           {{"id", std::string(id_of(kind))}});
  to.gauges("registry_analysis_seconds",
            "CPU time of the last analysis across resources, which has a thread of its own.")
      .add(daemon.analysis.seconds);
}

void collect_resolver(MetricCollection& to, const resolver::ResolverCounters& resolver) {
  to.gauges("resolver_names", "Number of endpoint names that are kept resolved.")
      .add(resolver.names);
  to.gauges("resolver_names_failed",
            "Number of endpoint names without an address: they do not exist, have none, or "
            "their lookups fail.")
      .add(resolver.names_failed);
  to.gauges("resolver_names_refused",
            "Number of endpoint names that are not looked up because their namespace has too many.")
      .add(resolver.names_refused);
  to.counters("resolver_lookups_total", "Number of lookups of endpoint names.")
      .add(resolver.lookups);
  to.counters("resolver_failures_total", "Number of failed lookups of endpoint names.")
      .add(resolver.failures);
}

// Returns a hash of all keys, defaults included.  Equal on all machines, so that they can be
// compared.
std::string config_hash(const Config& config) {
  return fmt::format("{:016x}", stable_hash(to_json(config)));
}

void collect_daemon(MetricCollection& to, const DaemonParts& daemon, const WorkersStatus& workers) {
  const ReloadStatus& reloads = daemon.reloads;
  to.gauges("build_info", "Always 1; the label has the version.")
      .add(1.0, {{"version", MESHDNS_VERSION}});
  to.gauges("workers", "Number of worker threads.").add(workers.count);
  to.gauges("workers_stuck",
            "Number of workers whose event loop has been blocked for more than 5 seconds.")
      .add(workers.stuck);
  to.gauges("workers_avoided",
            "Number of workers that get no new queries because their event loop has been blocked "
            "for more than 2 seconds.")
      .add(workers.avoided);
  to.gauges("start_time_seconds", "Unix time of the start of the daemon.")
      .add(unix_time(daemon.started));
  const Readiness readiness = daemon.readiness();
  to.gauges("ready", "1 while /readyz reports ready.").add(readiness.is_ready() ? 1.0 : 0.0);
  to.gauges("degraded", "Number of problems that /readyz reports as degraded.")
      .add(static_cast<double>(readiness.degraded.size()));
  to.gauges("config_last_reload_ok",
            "1 if the last reload of the configuration succeeded, 0 if it failed.")
      .add(reloads.ok ? 1.0 : 0.0);
  to.gauges("config_last_reload_success_timestamp_seconds",
            "Unix time of the last successful reload of the configuration; 0 if there was none.")
      .add(static_cast<double>(reloads.last_success_unix));
  to.gauges("config_info", "Always 1; the label has a hash of the configuration.")
      .add(1.0, {{"hash", config_hash(daemon.config)}});
  to.counters("config_reloads_total", "Number of reloads of the configuration.")
      .add(reloads.reloads);
  to.counters("config_reload_failures_total", "Number of reloads that failed and changed nothing.")
      .add(reloads.failures);
  to.counters("log_dropped_total", "Number of log lines dropped because the reader was too slow.")
      .add(daemon.log.dropped());
  const QueryLogCounts query_logs = daemon.query_logs();
  to.counters("query_log_dropped_total",
              "Number of query log lines dropped because the reader was too slow.")
      .add(query_logs.dropped_lines);
  const HttpCounters& admin = daemon.http;
  to.counters(
        "admin_accept_failures_total",
        "Number of connections to the admin endpoint lost for lack of file descriptors or memory.")
      .add(admin.accept_failures.load());
  to.counters("admin_overdue_total",
              "Number of connections to the admin endpoint closed because they took too long.")
      .add(admin.overdue.load());
  to.counters("admin_evicted_total",
              "Number of connections to the admin endpoint closed to make room for newer ones.")
      .add(admin.evicted.load());
  to.counters(
        "admin_busy_total",
        "Number of requests that the admin endpoint refused because the control thread was busy.")
      .add(admin.busy.load());
  to.gauges("admin_watches", "Number of open watches of the registry.")
      .add(daemon.streams.watches());
  to.counters("dnstap_frames_total", "Number of responses written as dnstap frames.")
      .add(query_logs.dnstap.written);
  to.counters("dnstap_dropped_total",
              "Number of dnstap frames dropped because the reader was too slow.")
      .add(query_logs.dnstap.dropped);
}

}  // namespace

std::string metrics_text(const DaemonParts& daemon) {
  const WorkersStatus all_workers = daemon.workers();
  const std::vector<WorkerStatus>& workers = all_workers.each;
  MetricCollection collection;
  collect_daemon(collection, daemon, all_workers);
  collect_process(collection, unix_time(daemon.started));
  collect_queries(collection, workers);
  collect_forwarding(collection, daemon.forwarding.cache.statistics(), workers,
                     upstream_status(daemon));
  collect_kernel_answers(collection, daemon.kernel_answers());
  collect_sources(collection, daemon.sources());
  collect_registry(collection, daemon);
  collect_resolver(collection, daemon.resolver.counters());
  return collection.text();
}

}  // namespace meshdns::dnsd
