// SPDX-License-Identifier: Apache-2.0
// The metrics, collected when they are asked for: nothing is counted twice, and what is counted
// costs a query nothing but its worker's own counters.
#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/dependency_pages.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/durable_file.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;
using Histogram = prometheus::ClientMetric::Histogram;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The families in the order in which they are added.
class MetricCollection {
 public:
  // Each begins a metric; add() adds values to it.
  void counters(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  void gauges(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  void histograms(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Histogram);
  }
  template <typename Number>
  void add(Number value, const MetricLabels& labels = {}) {
    prometheus::ClientMetric& metric = begin_value(labels);
    if (families_.back().type == prometheus::MetricType::Counter)
      metric.counter.value = static_cast<double>(value);
    else
      metric.gauge.value = static_cast<double>(value);
  }
  void add(Histogram histogram, const MetricLabels& labels = {}) {
    begin_value(labels).histogram = std::move(histogram);
  }

  // A metric with one value.
  template <typename Number>
  void counter(std::string name, std::string help, Number value, const MetricLabels& labels = {}) {
    counters(std::move(name), std::move(help));
    add(value, labels);
  }
  template <typename Number>
  void gauge(std::string name, std::string help, Number value, const MetricLabels& labels = {}) {
    gauges(std::move(name), std::move(help));
    add(value, labels);
  }

  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void begin(std::string name, std::string help, prometheus::MetricType type) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = name.starts_with("process_") ? std::move(name) : "meshdns_" + name;
    family.help = std::move(help);
    family.type = type;
  }
  prometheus::ClientMetric& begin_value(const MetricLabels& labels) {
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    for (const auto& [name, text] : labels) metric.label.push_back({name, registry::as_utf8(text)});
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

// The counts of the buckets one after the other, and their limits.  `limit_of`: that of a bucket.
template <typename Counts, typename LimitOf>
Histogram histogram_of(const Counts& counts, LimitOf limit_of, double sum) {
  Histogram histogram;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    histogram.sample_count += counts[i];
    histogram.bucket.push_back({histogram.sample_count, limit_of(i)});
  }
  histogram.sample_sum = sum;
  return histogram;
}

// The Unix time of a moment of the monotonic clock.
double unix_time(std::chrono::steady_clock::time_point then) {
  const auto age = std::chrono::steady_clock::now() - then;
  const auto moment = std::chrono::system_clock::now() - age;
  return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

// --- the process, under the names that Prometheus' client libraries have

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void collect_memory(MetricCollection& to) {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t virtual_pages = 0;
  std::uint64_t resident_pages = 0;
  if (!(statm >> virtual_pages >> resident_pages)) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  to.gauge("process_virtual_memory_bytes", "Size of the virtual memory.", virtual_pages * page);
  to.gauge("process_resident_memory_bytes", "Size of the resident memory.", resident_pages * page);
}

void collect_descriptors(MetricCollection& to) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return;
  // One is that of the directory.
  to.gauge("process_open_fds", "Number of open file descriptors.",
           std::distance(begin(open), end(open)) - 1);
}

// `started`: Unix time of the start.
void collect_process(MetricCollection& to, double started) {
  to.gauge("process_start_time_seconds", "Unix time of the start of the process.", started);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    to.counter("process_cpu_seconds_total", "CPU time of the process in user and kernel mode.",
               seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    to.gauge("process_resident_memory_max_bytes", "Largest size of the resident memory so far.",
             1024.0 * static_cast<double>(usage.ru_maxrss));
  }
  collect_memory(to);
  collect_descriptors(to);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    to.gauge("process_max_fds", "Limit of open file descriptors.", limit.rlim_cur);
}

// --- queries and responses, and the connections and datagrams that they come in

using Workers = std::vector<WorkerStatus>;

// `read` of each worker, added up.
template <typename Read>
std::uint64_t sum_over(const Workers& workers, Read read) {
  std::uint64_t total = 0;
  for (const auto& worker : workers) total += read(worker);
  return total;
}
std::uint64_t total_of(const Workers& workers, Counter WorkerCounters::* counter) {
  return sum_over(workers, [&](const WorkerStatus& w) { return (w.net.*counter).value(); });
}
std::uint64_t total_of(const Workers& workers, Counter QueryCounters::* counter) {
  return sum_over(workers, [&](const WorkerStatus& w) { return (w.query.*counter).value(); });
}
std::uint64_t total_of(const Workers& workers,
                       std::atomic<std::uint64_t> ForwardCounters::* counter) {
  return sum_over(workers, [&](const WorkerStatus& w) {
    return (w.forward.*counter).load(std::memory_order_relaxed);
  });
}

void collect_requests(MetricCollection& to, const Workers& workers) {
  to.counters("dns_requests_total",
              "Number of queries received, by transport, address family and type.");
  for (const std::size_t tcp : {0, 1})
    for (const std::size_t v6 : {0, 1})
      for (std::size_t type = 0; type < QueryCounters::kTypeSlots; ++type) {
        const auto count = sum_over(workers, [&](const WorkerStatus& w) {
          return w.query.requests[tcp][v6][type].value();
        });
        if (count != 0)
          to.add(count, {{"proto", tcp != 0 ? "tcp" : "udp"},
                         {"family", v6 != 0 ? "ipv6" : "ipv4"},
                         {"type", QueryCounters::type_name(type)}});
      }
}

void collect_responses(MetricCollection& to, const Workers& workers) {
  to.counters("dns_responses_total",
              "Number of responses sent, by rcode and by the source of the answer.");
  for (std::size_t rcode = 0; rcode < QueryCounters::kRcodeSlots; ++rcode)
    for (std::size_t source = 0; source < kAnswerSources; ++source) {
      const auto count = sum_over(
          workers, [&](const WorkerStatus& w) { return w.query.responses[rcode][source].value(); });
      if (count != 0)
        to.add(count, {{"rcode", std::string(QueryCounters::rcode_name(rcode))},
                       {"source", std::string(to_string(static_cast<AnswerSource>(source)))}});
    }
}

void collect_durations(MetricCollection& to, const Workers& workers) {
  std::array<std::uint64_t, QueryCounters::kDurationBuckets> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] =
        sum_over(workers, [&](const WorkerStatus& w) { return w.query.duration[i].value(); });
  const std::uint64_t sum_ns = total_of(workers, &QueryCounters::duration_sum_ns);
  to.histograms("dns_request_duration_seconds",
                "Time from the arrival of a query to its response.");
  to.add(histogram_of(counts, QueryCounters::duration_limit, 1e-9 * static_cast<double>(sum_ns)));
}

using Sizes = SizeHistogram WorkerCounters::*;

Histogram sizes_of(const Workers& workers, Sizes sizes) {
  const auto sum = [&](auto read) {
    return sum_over(workers, [&](const WorkerStatus& w) { return read(w.net.*sizes); });
  };
  std::array<std::uint64_t, SizeHistogram::kBuckets + 1> counts{};  // the last is of none
  for (std::size_t i = 0; i < SizeHistogram::kBuckets; ++i)
    counts[i] = sum([&](const SizeHistogram& h) { return h.count(i); });
  const auto limit_of = [](std::size_t i) {
    return i < SizeHistogram::kBuckets ? static_cast<double>(SizeHistogram::limit(i)) : kInfinity;
  };
  return histogram_of(counts, limit_of,
                      static_cast<double>(sum([](const SizeHistogram& h) { return h.sum(); })));
}

void collect_sizes(MetricCollection& to, const Workers& workers) {
  to.histograms("dns_request_size_bytes",
                "Size of a query that is answered, by transport, without the length in front of it "
                "over TCP.");
  to.add(sizes_of(workers, &WorkerCounters::udp_query_sizes), {{"proto", "udp"}});
  to.add(sizes_of(workers, &WorkerCounters::tcp_query_sizes), {{"proto", "tcp"}});
  to.histograms("dns_response_size_bytes",
                "Size of a response, by transport, without the length in front of it over TCP.");
  to.add(sizes_of(workers, &WorkerCounters::udp_reply_sizes), {{"proto", "udp"}});
  to.add(sizes_of(workers, &WorkerCounters::tcp_reply_sizes), {{"proto", "tcp"}});
}

void collect_connections(MetricCollection& to, const Workers& workers) {
  const auto total = [&](auto counter) { return total_of(workers, counter); };
  to.gauge("tcp_connections", "Number of open TCP connections of clients.",
           total(&WorkerCounters::tcp_open));
  to.gauge("tcp_held_bytes", "Bytes of incomplete queries and unsent responses of TCP clients.",
           total(&WorkerCounters::tcp_held));
  to.gauge(
      "dns_waiting",
      "Number of queries that wait for an upstream server or for the first addresses of a host.",
      total(&QueryCounters::waiting));
  to.counter("dns_truncated_total", "Number of responses with the TC bit.",
             total(&QueryCounters::truncated));
  to.counter("dns_overworked_total",
             "Number of queries answered with SERVFAIL because their aliases and search domains "
             "needed too much work.",
             total(&QueryCounters::overworked));
  to.counter("dns64_requests_translated_total",
             "Number of responses with IPv6 addresses made from IPv4 addresses.",
             total(&QueryCounters::translated));
  to.counter("udp_socket_overflow_total",
             "Number of queries dropped by the kernel because the receive buffer was full.",
             total(&WorkerCounters::udp_socket_overflow));
}

// The faults of clients and their network, by outcome.
void collect_drops(MetricCollection& to, const Workers& workers) {
  const auto total = [&](auto counter) { return total_of(workers, counter); };
  using Reasons = std::initializer_list<std::pair<const char*, Counter WorkerCounters::*>>;
  const auto add_by_reason = [&](Reasons reasons) {
    for (const auto& [reason, counter] : reasons) to.add(total(counter), {{"reason", reason}});
  };
  to.counters("udp_dropped_total", "Number of datagrams without a response, by reason.");
  add_by_reason({{"source", &WorkerCounters::udp_dropped_source},
                 {"size", &WorkerCounters::udp_dropped_long},
                 {"send", &WorkerCounters::udp_send_errors},
                 {"receive", &WorkerCounters::udp_receive_errors}});
  to.counters("tcp_closed_total",
              "Number of TCP connections that the server closed or refused, by reason.");
  add_by_reason({{"rejected_total", &WorkerCounters::tcp_rejected_total},
                 {"rejected_client", &WorkerCounters::tcp_rejected_client},
                 {"rejected_files", &WorkerCounters::tcp_rejected_files},
                 {"evicted", &WorkerCounters::tcp_evicted},
                 {"idle", &WorkerCounters::tcp_closed_idle},
                 {"slow_query", &WorkerCounters::tcp_closed_slow_query},
                 {"slow_reader", &WorkerCounters::tcp_closed_slow_reader},
                 {"backlog", &WorkerCounters::tcp_closed_backlog},
                 {"accept_error", &WorkerCounters::tcp_accept_errors}});
  to.counter("tcp_accepted_total", "Number of TCP connections accepted from clients.",
             total(&WorkerCounters::tcp_accepted));
  to.counter("dns_do_requests_total", "Number of queries with the DO bit.",
             total(&QueryCounters::do_requests));
  to.counters("dns_rate_limited_total",
              "Number of queries over the rate limit of their client, by action.");
  to.add(total(&QueryCounters::limited_dropped), {{"action", "drop"}});
  to.add(total(&QueryCounters::limited_truncated), {{"action", "truncate"}});
  to.counters("dns_registry_only_total",
              "Number of queries of clients with REGISTRY_ONLY for names that no object that they "
              "see has, by action.");
  to.add(total(&QueryCounters::outside_refused), {{"action", "refuse"}});
  to.add(total(&QueryCounters::outside_audited), {{"action", "audit"}});
  to.counters("dns_cookies_total",
              "Number of queries with a DNS cookie, by the result of its check.");
  for (std::size_t check = 0; check < kCookieChecks; ++check)
    to.add(sum_over(workers, [&](const WorkerStatus& w) { return w.query.cookies[check].value(); }),
           {{"cookie", std::string(to_string(static_cast<CookieCheck>(check)))}});
  to.counter("dns_rejected_total",
             "Number of queries answered with SERVFAIL because too many queries were waiting.",
             total(&QueryCounters::rejected_waiting));
}

void collect_queries(MetricCollection& to, const Workers& workers) {
  collect_requests(to, workers);
  collect_responses(to, workers);
  collect_durations(to, workers);
  collect_sizes(to, workers);
  collect_connections(to, workers);
  collect_drops(to, workers);
}

// --- the cache, and questions for upstream servers

void collect_cache(MetricCollection& to, const CacheStatistics& cache) {
  const auto add_each = [&](auto member) {
    to.add(cache.positive.*member, {{"type", "positive"}});
    to.add(cache.negative.*member, {{"type", "negative"}});
    to.add(cache.failure.*member, {{"type", "failure"}});
  };
  to.gauges("cache_entries", "Number of cache entries, by type.");
  add_each(&CacheStatistics::Kind::entries);
  to.gauges("cache_bytes", "Memory used by cache entries, by type.");
  add_each(&CacheStatistics::Kind::bytes);
  to.counters("cache_hits_total", "Number of answers from the cache, by type of the entry.");
  add_each(&CacheStatistics::Kind::hits);
  to.add(cache.stale_hits, {{"type", "stale"}});
  to.counters("cache_evictions_total",
              "Number of cache entries removed to make room for others, by type.");
  add_each(&CacheStatistics::Kind::evictions);
  to.counter("cache_prefetch_total",
             "Number of cache entries refreshed shortly before they expired.", cache.refreshes);
  to.gauge("cache_capacity_bytes", "Maximum memory of the cache.", cache.capacity_bytes);
  to.counter("cache_misses_total", "Number of cache lookups without a result.", cache.misses);
}

void collect_questions(MetricCollection& to, const Workers& workers) {
  to.counter("forward_requests_total", "Number of questions for upstream servers.",
             total_of(workers, &ForwardCounters::requests));
  to.counter("forward_joined_total",
             "Number of questions that waited for an identical question in flight.",
             total_of(workers, &ForwardCounters::joined));
  to.counter("forward_rejected_total", "Number of questions rejected because a limit was reached.",
             total_of(workers, &ForwardCounters::rejected));
  to.counter("forward_failures_total",
             "Number of questions without a usable reply from any upstream server.",
             total_of(workers, &ForwardCounters::failures));
  to.counter("forward_shortages_total",
             "Number of upstream servers skipped for lack of a socket, a port, memory or a place "
             "on a connection.",
             total_of(workers, &ForwardCounters::shortages));
}

Histogram latency_of(const UpstreamStatus& upstream) {
  const auto limit_of = [](std::size_t i) {
    return i < kLatencyBuckets ? 0.000'25 * static_cast<double>(1ULL << i) : kInfinity;
  };
  return histogram_of(upstream.latency, limit_of,
                      1e-6 * static_cast<double>(upstream.latency_sum_us));
}

// `to`: the server as the configuration writes it, so that there are as many series as it names.
void collect_upstreams(MetricCollection& to, const std::vector<UpstreamStatus>& upstreams) {
  using Upstream = const UpstreamStatus&;
  const auto add = [&](auto read) {
    for (const auto& upstream : upstreams)
      to.add(std::invoke(read, upstream), {{"to", upstream.name}});
  };
  const auto add_by = [&](const char* label, const char* value,
                          std::uint64_t UpstreamStatus::* member) {
    for (const auto& upstream : upstreams)
      to.add(upstream.*member, {{"to", upstream.name}, {label, value}});
  };
  to.gauges("proxy_healthy",
            "1 while the upstream server answers, 0 while it is doubtful or down.");
  add([](Upstream u) { return u.health == Health::Up && !u.looped; });
  to.gauges("proxy_failing",
            "1 while the upstream server answers nothing but errors, as SERVFAIL and REFUSED.");
  add([](Upstream u) { return !u.failing_with.empty(); });
  to.gauges("proxy_looped",
            "1 while the upstream server sends our queries back to us; it is not used then.");
  add(&UpstreamStatus::looped);
  to.counters("proxy_requests_total",
              "Number of messages sent to the upstream server, retries and probes included.");
  add(&UpstreamStatus::queries);
  to.counters("proxy_responses_total", "Number of replies of the upstream server, by rcode.");
  add_by("rcode", "ok", &UpstreamStatus::answers);
  add_by("rcode", "SERVFAIL", &UpstreamStatus::servfail);
  add_by("rcode", "REFUSED", &UpstreamStatus::refused);
  add_by("rcode", "other", &UpstreamStatus::other_rcodes);
  to.counters("proxy_errors_total", "Number of failures of the upstream server, by reason.");
  add_by("reason", "timeout", &UpstreamStatus::timeouts);
  add_by("reason", "unreachable", &UpstreamStatus::unreachable);
  add_by("reason", "malformed", &UpstreamStatus::malformed);
  add_by("reason", "mismatched", &UpstreamStatus::mismatched);
  to.counters("proxy_truncated_total", "Number of truncated replies that were retried over TCP.");
  add(&UpstreamStatus::truncated);
  to.counters("proxy_connections_total",
              "Number of TCP and TLS connections opened to the upstream server.");
  add(&UpstreamStatus::connections);
  to.counters("proxy_healthcheck_failures_total", "Number of probes without a reply.");
  add(&UpstreamStatus::probe_failures);
  to.gauges("proxy_in_flight", "Number of messages that wait for a reply of the upstream server.");
  add(&UpstreamStatus::in_flight);
  to.histograms("proxy_request_duration_seconds",
                "Time from a message to the reply of the upstream server.");
  add(latency_of);
}

void collect_kernel_answers(MetricCollection& to, const KernelAnswersStatus& kernel) {
  to.gauge("kernel_answers", "1 while the kernel may answer queries (server.kernel_answers).",
           kernel.feed != nullptr);
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

// --- sources of resources

using Sources = std::vector<SourceReport>;

void collect_each_source(MetricCollection& to, const Sources& sources) {
  const auto add = [&](auto read) {
    for (const auto& report : sources) to.add(read(report), {{"name", report.status.name}});
  };
  using Report = const SourceReport&;
  to.gauges("source_complete", "1 once the source has been read completely.");
  add([](Report r) { return r.status.complete; });
  to.gauges("source_broken",
            "Number of files or collections of the source that are broken; their last good state "
            "is used.");
  add([](Report r) { return r.status.broken; });
  to.gauges("source_failing", "1 while the source reports an error (see /readyz).");
  add([](Report r) { return !r.status.last_error.empty(); });
  to.counters("source_changes_total",
              "Number of changed files or collections that the source delivered.");
  add([](Report r) { return r.status.changes; });
  to.gauges("source_last_change_timestamp_seconds",
            "Unix time of the last change that the source delivered.");
  add([](Report r) { return unix_time(r.last_change); });
}

Histogram delays_of(const registry::DelayHistogram& delays) {
  const auto limit_of = [](std::size_t i) {
    using Delays = registry::DelayHistogram;
    return i < Delays::kLimits.size() ? Delays::kLimits[i] : kInfinity;
  };
  return histogram_of(delays.counts, limit_of, delays.sum);
}

// The sources that follow a cluster's API; nothing where there are none.
void collect_clusters(MetricCollection& to, const Sources& sources) {
  std::vector<const registry::SourceStatus*> clusters;
  for (const auto& report : sources)
    if (report.status.cluster) clusters.push_back(&report.status);
  if (clusters.empty()) return;
  const auto each_collection = [&](auto read) {
    for (const auto* source : clusters)
      for (const auto& collection : source->cluster->collections)
        to.add(std::invoke(read, collection),
               {{"name", source->name}, {"collection", collection.name}});
  };
  using Collected = registry::CollectionStatus;
  to.gauges("kubernetes_reachable", "1 while the API server answers.");
  for (const auto* source : clusters) to.add(source->cluster->reachable, {{"name", source->name}});
  to.gauges("kubernetes_synced", "1 once the collection has been listed completely.");
  each_collection(&Collected::synced);
  to.gauges("kubernetes_watching", "1 while a watch of the collection is open.");
  each_collection(&Collected::watching);
  to.gauges("kubernetes_forbidden",
            "1 while the API server denies access to the collection (403).");
  each_collection([](const Collected& c) { return c.trouble == "forbidden"; });
  to.gauges("kubernetes_objects", "Number of objects in the collection.");
  each_collection(&Collected::objects);
  to.gauges("kubernetes_refused_objects",
            "Number of invalid objects in the collection; their last valid version is used, if "
            "there is one.");
  each_collection(&Collected::refused);
  to.gauges("kubernetes_silence_seconds",
            "Time since the last message of the API server about the collection.");
  each_collection(&Collected::silent_seconds);
  to.counters("kubernetes_lists_total", "Number of complete lists of the collection.");
  each_collection(&Collected::lists);
  to.counters("kubernetes_relists_total",
              "Number of complete lists of the collection after the first.");
  each_collection(&Collected::relists);
  to.counters("kubernetes_watches_total", "Number of watches opened for the collection.");
  each_collection(&Collected::watches);
  to.counters("kubernetes_events_total", "Number of watch events received for the collection.");
  each_collection(&Collected::events);
  to.counters("kubernetes_errors_total",
              "Number of lists and watches that failed or were refused.");
  each_collection(&Collected::errors);
  to.histograms("kubernetes_programming_duration_seconds",
                "Time until answers show a change, measured from its event and, for "
                "EndpointSlices, from the change that caused it.");
  for (const auto* source : clusters) {
    to.add(delays_of(source->cluster->from_arrival), {{"name", source->name}, {"since", "event"}});
    to.add(delays_of(source->cluster->from_trigger), {{"name", source->name}, {"since", "change"}});
  }
}

// The streams of istiod sources; nothing where there are none.
void collect_control_planes(MetricCollection& to, const Sources& sources) {
  using Status = registry::ControlPlaneStatus;
  const bool has_any = std::ranges::any_of(
      sources, [](const auto& report) { return report.status.control_plane.has_value(); });
  if (!has_any) return;
  const auto each = [&](auto member) {
    for (const auto& report : sources)
      if (report.status.control_plane)
        to.add((*report.status.control_plane).*member, {{"name", report.status.name}});
  };
  to.gauges("istiod_connected", "1 while the stream from istiod is open.");
  each(&Status::connected);
  to.gauges("istiod_names", "Number of names that istiod has pushed and not taken back.");
  each(&Status::names);
  to.gauges("istiod_refused_names",
            "Number of invalid names in the name table; their last valid version is used, if there "
            "is one.");
  each(&Status::refused);
  to.gauges("istiod_silence_seconds", "Time since the last push of istiod.");
  each(&Status::silent_seconds);
  to.counters("istiod_connects_total", "Number of streams that were begun.");
  each(&Status::connects);
  to.counters("istiod_pushes_total", "Number of pushes that were taken over (ACK).");
  each(&Status::pushes);
  to.counters("istiod_refused_pushes_total", "Number of pushes that were refused (NACK).");
  each(&Status::refused_pushes);
  to.counters("istiod_changed_names_total", "Number of names that pushes have changed.");
  each(&Status::changed_names);
  to.counters("istiod_push_bytes_total", "Number of bytes of all pushes.");
  each(&Status::bytes);
}

// --- the registry and the resolver

void collect_registry(MetricCollection& to, const Engine& engine) {
  const auto& snapshot = *engine.registry.current();
  const FeedCounters& feed = engine.feed.counters();
  const AnalysisStatus& analysis = engine.analysis.status();
  const StateStatus state = engine.kept.status();
  to.gauge("registry_resources", "Number of objects in the registry.", snapshot.resources.size());
  to.gauge("registry_hosts", "Number of host names in the registry, wildcards included.",
           snapshot.hosts.size() + snapshot.wildcards.size());
  to.gauge("registry_generation", "Generation number of the snapshot in use.", snapshot.generation);
  to.gauge("registry_from_snapshot", "1 while the saved state of an earlier run is in use.",
           snapshot.sources.from_state_dir);
  to.gauge("snapshot_write_timestamp_seconds",
           "Unix time of the last write of the registry to state_dir; 0 if there was none in this "
           "run.",
           state.written_unix);
  to.gauge("snapshot_bytes", "Size of the registry's file in state_dir.", state.bytes);
  to.counter("snapshot_write_failures_total",
             "Number of failed writes of the registry to state_dir.", state.failures);
  to.counter("registry_commits_total", "Number of transactions applied to the registry.",
             feed.commits);
  to.counters("registry_findings_total", "Number of findings in resources, by severity.");
  to.add(feed.errors, {{"severity", "error"}});
  to.add(feed.warnings, {{"severity", "warning"}});
  to.gauges("registry_analysis_findings",
            "Number of findings across resources (docs/reference/findings.md), by id.");
  for (const registry::FindingKind kind : registry::finding_kinds())
    to.add(analysis.report.counts.at(static_cast<std::size_t>(kind)),
           {{"id", std::string(id_of(kind))}});
  to.gauge("registry_analysis_seconds",
           "CPU time of the last analysis across resources, which has a thread of its own.",
           analysis.seconds);
}

void collect_resolver(MetricCollection& to, const resolver::ResolverCounters& resolver) {
  to.gauge("resolver_names", "Number of endpoint names that are kept resolved.", resolver.names);
  to.gauge("resolver_names_failed",
           "Number of endpoint names without an address: they do not exist, have none, or "
           "their lookups fail.",
           resolver.names_failed);
  to.gauge("resolver_names_refused",
           "Number of endpoint names that are not looked up because their namespace has too many.",
           resolver.names_refused);
  to.counter("resolver_lookups_total", "Number of lookups of endpoint names.", resolver.lookups);
  to.counter("resolver_failures_total", "Number of failed lookups of endpoint names.",
             resolver.failures);
}

void collect_dependencies(MetricCollection& to, const Dependencies& dependencies) {
  constexpr std::size_t kNamespaces = 50;
  to.gauge("dependencies", "Number of rows of the record of dependencies.", dependencies.size());
  to.gauge("dependencies_bytes", "Memory of the record of dependencies.", dependencies.memory());
  to.counter("dependencies_new_total",
             "Number of rows that were new: a workload asked for a host for the first time.",
             dependencies.added());
  to.counter("dependencies_dropped_total",
             "Number of rows that a limit has removed from the record, or kept out.",
             dependencies.dropped());
  to.gauges("dependencies_hidden",
            "Number of rows for objects that the client may not see, by the client's namespace: "
            "the 50 with the most rows, and (others).");
  for (const auto& [ns, rows] : hidden_by_namespace(dependencies, kNamespaces))
    to.add(rows, {{"client_namespace", ns}});
}

// --- the daemon itself

// Returns a hash of all keys, defaults included.  Equal on all machines, so that they can be
// compared.
std::string config_hash(const Config& config) {
  return fmt::format("{:016x}", stable_hash(to_json(config)));
}

void collect_daemon(MetricCollection& to, const ShownDaemon& daemon, const DaemonStatus& status) {
  const WorkersStatus& workers = status.workers;
  const Readiness readiness = daemon.health.readiness();
  const ReloadStatus& reloads = daemon.reloads;
  const HttpCounters& admin = daemon.http;
  const DnstapCounts& dnstap = status.query_logs.dnstap;
  to.gauge("build_info", "Always 1; the label has the version.", 1, {{"version", MESHDNS_VERSION}});
  to.gauge("workers", "Number of worker threads.", workers.count);
  to.gauge("workers_stuck",
           "Number of workers whose event loop has been blocked for more than 5 seconds.",
           workers.stuck);
  to.gauge("workers_avoided",
           "Number of workers that get no new queries because their event loop has been blocked "
           "for more than 2 seconds.",
           workers.avoided);
  to.gauge("start_time_seconds", "Unix time of the start of the daemon.",
           unix_time(daemon.engine.started));
  to.gauge("ready", "1 while /readyz reports ready.", readiness.is_ready());
  to.gauge("degraded", "Number of problems that /readyz reports as degraded.",
           readiness.degraded.size());
  to.gauge("config_last_reload_ok",
           "1 if the last reload of the configuration succeeded, 0 if it failed.", reloads.ok);
  to.gauge("config_last_reload_success_timestamp_seconds",
           "Unix time of the last successful reload of the configuration; 0 if there was none.",
           reloads.last_success_unix);
  to.gauge("config_info", "Always 1; the label has a hash of the configuration.", 1,
           {{"hash", config_hash(daemon.engine.config)}});
  to.counter("config_reloads_total", "Number of reloads of the configuration.", reloads.reloads);
  to.counter("config_reload_failures_total", "Number of reloads that failed and changed nothing.",
             reloads.failures);
  to.counter("log_dropped_total", "Number of log lines dropped because the reader was too slow.",
             daemon.engine.log.dropped());
  to.counter("query_log_dropped_total",
             "Number of query log lines dropped because the reader was too slow.",
             status.query_logs.dropped_lines);
  to.counter(
      "admin_accept_failures_total",
      "Number of connections to the admin endpoint lost for lack of file descriptors or memory.",
      admin.accept_failures.load());
  to.counter("admin_overdue_total",
             "Number of connections to the admin endpoint closed because they took too long.",
             admin.overdue.load());
  to.counter("admin_evicted_total",
             "Number of connections to the admin endpoint closed to make room for newer ones.",
             admin.evicted.load());
  to.counter(
      "admin_busy_total",
      "Number of requests that the admin endpoint refused because the control thread was busy.",
      admin.busy.load());
  to.gauge("admin_watches", "Number of open watches of the registry.", daemon.streams.watches());
  to.counter("dnstap_frames_total", "Number of responses written as dnstap frames.",
             dnstap.written);
  to.counter("dnstap_dropped_total",
             "Number of dnstap frames dropped because the reader was too slow.", dnstap.dropped);
}

}  // namespace

std::string metrics_text(const ShownDaemon& daemon) {
  const DaemonStatus status = daemon.status();
  const Workers& workers = status.workers.each;
  const Engine& engine = daemon.engine;
  const Sources sources = engine.sources.reports();
  MetricCollection collection;
  collect_daemon(collection, daemon, status);
  collect_process(collection, unix_time(engine.started));
  collect_queries(collection, workers);
  collect_cache(collection, engine.forwarding->cache.statistics());
  collect_questions(collection, workers);
  collect_upstreams(collection, upstream_status(daemon));
  collect_kernel_answers(collection, status.kernel);
  collect_each_source(collection, sources);
  collect_clusters(collection, sources);
  collect_control_planes(collection, sources);
  collect_registry(collection, engine);
  collect_resolver(collection, engine.resolution.resolver().counters());
  collect_dependencies(collection, daemon.dependencies);
  return collection.text();
}

}  // namespace meshdns::dnsd
