// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "dnsd/admin/metric_groups.hpp"

namespace meshdns::dnsd {
namespace {

void collect_cache(MetricCollection& to, const CacheStatistics& cache) {
  const std::array<std::pair<const char*, const CacheStatistics::Kind*>, 3> kinds{
      {{"positive", &cache.positive}, {"negative", &cache.negative}, {"failure", &cache.failure}}};
  to.gauges("cache_entries", "Number of cache entries, by type.");
  for (const auto& [name, kind] : kinds) to.add(kind->entries, {{"type", name}});
  to.gauges("cache_bytes", "Memory used by cache entries, by type.");
  for (const auto& [name, kind] : kinds) to.add(kind->bytes, {{"type", name}});
  to.counters("cache_hits_total", "Number of answers from the cache, by type of the entry.");
  for (const auto& [name, kind] : kinds) to.add(kind->hits, {{"type", name}});
  to.add(cache.stale_hits, {{"type", "stale"}});
  to.counters("cache_evictions_total",
              "Number of cache entries removed to make room for others, by type.");
  for (const auto& [name, kind] : kinds) to.add(kind->evictions, {{"type", name}});
  to.counters("cache_prefetch_total",
              "Number of cache entries refreshed shortly before they expired.")
      .add(cache.refreshes);
  to.gauges("cache_capacity_bytes", "Maximum memory of the cache.").add(cache.capacity_bytes);
  to.counters("cache_misses_total", "Number of cache lookups without a result.").add(cache.misses);
}

void collect_questions(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  const auto total = [&](const std::atomic<std::uint64_t> ForwardCounters::* counter) {
    return sum_over(workers, [&](const WorkerStatus& w) {
      return (w.forward.*counter).load(std::memory_order_relaxed);
    });
  };
  to.counters("forward_requests_total", "Number of questions for upstream servers.")
      .add(total(&ForwardCounters::requests));
  to.counters("forward_joined_total",
              "Number of questions that waited for an identical question in flight.")
      .add(total(&ForwardCounters::joined));
  to.counters("forward_rejected_total", "Number of questions rejected because a limit was reached.")
      .add(total(&ForwardCounters::rejected));
  to.counters("forward_failures_total",
              "Number of questions without a usable reply from any upstream server.")
      .add(total(&ForwardCounters::failures));
  to.counters("forward_shortages_total",
              "Number of upstream servers skipped for lack of a socket, a port, memory or a place "
              "on a connection.")
      .add(total(&ForwardCounters::shortages));
}

prometheus::ClientMetric::Histogram latency_of(const UpstreamStatus& upstream) {
  prometheus::ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < upstream.latency.size(); ++i) {
    histogram.sample_count += upstream.latency[i];
    const double limit = i < kLatencyBuckets ? 0.000'25 * static_cast<double>(1ULL << i)
                                             : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, limit});
  }
  histogram.sample_sum = 1e-6 * static_cast<double>(upstream.latency_sum_us);
  return histogram;
}

// `to`: the server as the configuration writes it, so that there are as many series as it names.
void collect_upstreams(MetricCollection& to, const std::vector<UpstreamStatus>& upstreams) {
  using Member = std::uint64_t UpstreamStatus::*;
  const auto add = [&](Member member) {
    for (const auto& upstream : upstreams) to.add(upstream.*member, {{"to", upstream.name}});
  };
  const auto add_by = [&](const char* label, const char* value, Member member) {
    for (const auto& upstream : upstreams)
      to.add(upstream.*member, {{"to", upstream.name}, {label, value}});
  };
  to.gauges("proxy_healthy",
            "1 while the upstream server answers, 0 while it is doubtful or down.");
  for (const auto& upstream : upstreams)
    to.add(upstream.health == Health::Up && !upstream.looped ? 1.0 : 0.0, {{"to", upstream.name}});
  to.gauges("proxy_failing",
            "1 while the upstream server answers nothing but errors, as SERVFAIL and REFUSED.");
  for (const auto& upstream : upstreams)
    to.add(upstream.failing_with.empty() ? 0.0 : 1.0, {{"to", upstream.name}});
  to.gauges("proxy_looped",
            "1 while the upstream server sends our queries back to us; it is not used then.");
  for (const auto& upstream : upstreams)
    to.add(upstream.looped ? 1.0 : 0.0, {{"to", upstream.name}});
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
  for (const auto& upstream : upstreams) to.add(latency_of(upstream), {{"to", upstream.name}});
}

}  // namespace

void collect_forwarding(MetricCollection& to, const CacheStatistics& cache,
                        const std::vector<WorkerStatus>& workers,
                        const std::vector<UpstreamStatus>& upstreams) {
  collect_cache(to, cache);
  collect_questions(to, workers);
  collect_upstreams(to, upstreams);
}

}  // namespace meshdns::dnsd
