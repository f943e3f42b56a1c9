// SPDX-License-Identifier: Apache-2.0
// The metrics, collected when they are asked for: nothing is counted twice, and what is counted
// costs a query nothing but its worker's own counters.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/metric_collection.hpp"
#include "dnsd/admin/process_metrics.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/checksum.hpp"

namespace meshdns::dnsd {
namespace {

using prometheus::ClientMetric;

// Over all workers.
template <typename Read>
std::uint64_t sum(const std::vector<WorkerStatus>& workers, Read read) {
  std::uint64_t total = 0;
  for (const auto& worker : workers) total += read(worker);
  return total;
}

void collect_requests(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  to.counters("dns_requests_total",
              "Number of queries received, by transport, address family and type.");
  for (const std::size_t tcp : {0, 1})
    for (const std::size_t v6 : {0, 1})
      for (std::size_t type = 0; type < QueryCounters::kTypeSlots; ++type) {
        const auto count = sum(workers, [&](const WorkerStatus& w) {
          return w.query.requests[tcp][v6][type].value();
        });
        if (count != 0)
          to.add(count, {{"proto", tcp != 0 ? "tcp" : "udp"},
                         {"family", v6 != 0 ? "ipv6" : "ipv4"},
                         {"type", QueryCounters::type_name(type)}});
      }
}

void collect_responses(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  to.counters("dns_responses_total",
              "Number of responses sent, by rcode and by the source of the answer.");
  for (std::size_t rcode = 0; rcode < QueryCounters::kRcodeSlots; ++rcode)
    for (std::size_t source = 0; source < kAnswerSources; ++source) {
      const auto count = sum(
          workers, [&](const WorkerStatus& w) { return w.query.responses[rcode][source].value(); });
      if (count != 0)
        to.add(count, {{"rcode", std::string(QueryCounters::rcode_name(rcode))},
                       {"source", std::string(to_string(static_cast<AnswerSource>(source)))}});
    }
}

void collect_durations(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < QueryCounters::kDurationBuckets; ++i) {
    histogram.sample_count +=
        sum(workers, [&](const WorkerStatus& w) { return w.query.duration[i].value(); });
    histogram.bucket.push_back({histogram.sample_count, QueryCounters::duration_limit(i)});
  }
  histogram.sample_sum = 1e-9 * static_cast<double>(sum(workers, [](const WorkerStatus& w) {
                           return w.query.duration_sum_ns.value();
                         }));
  to.histograms("dns_request_duration_seconds", "Time from the arrival of a query to its response.")
      .add(std::move(histogram));
}

void collect_connections(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  to.gauges("tcp_connections", "Number of open TCP connections of clients.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.net.tcp_open.value(); }));
  to.gauges("tcp_held_bytes", "Bytes of incomplete queries and unsent responses of TCP clients.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.net.tcp_held.value(); }));
  to.gauges(
        "dns_waiting",
        "Number of queries that wait for an upstream server or for the first addresses of a host.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.waiting.value(); }));
  to.counters("dns_truncated_total", "Number of responses with the TC bit.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.truncated.value(); }));
  to.counters("dns_overworked_total",
              "Number of queries answered with SERVFAIL because their aliases and search domains "
              "needed too much work.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.overworked.value(); }));
  to.counters("dns64_requests_translated_total",
              "Number of responses with IPv6 addresses made from IPv4 addresses.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.translated.value(); }));
  to.counters("udp_socket_overflow_total",
              "Number of queries dropped by the kernel because the receive buffer was full.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.net.udp_socket_overflow.value(); }));
}

// Adds the faults of clients and their network, by outcome.
void collect_drops(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  using Member = Counter WorkerCounters::*;
  const auto total = [&](Member member) {
    return sum(workers, [&](const WorkerStatus& w) { return (w.net.*member).value(); });
  };
  const std::array<std::pair<const char*, Member>, 4> udp{{
      {"source", &WorkerCounters::udp_dropped_source},
      {"size", &WorkerCounters::udp_dropped_long},
      {"send", &WorkerCounters::udp_send_errors},
      {"receive", &WorkerCounters::udp_receive_errors},
  }};
  to.counters("udp_dropped_total", "Number of datagrams without a response, by reason.");
  for (const auto& [reason, member] : udp) to.add(total(member), {{"reason", reason}});
  const std::array<std::pair<const char*, Member>, 9> tcp{{
      {"rejected_total", &WorkerCounters::tcp_rejected_total},
      {"rejected_client", &WorkerCounters::tcp_rejected_client},
      {"rejected_files", &WorkerCounters::tcp_rejected_files},
      {"evicted", &WorkerCounters::tcp_evicted},
      {"idle", &WorkerCounters::tcp_closed_idle},
      {"slow_query", &WorkerCounters::tcp_closed_slow_query},
      {"slow_reader", &WorkerCounters::tcp_closed_slow_reader},
      {"backlog", &WorkerCounters::tcp_closed_backlog},
      {"accept_error", &WorkerCounters::tcp_accept_errors},
  }};
  to.counters("tcp_closed_total",
              "Number of TCP connections that the server closed or refused, by reason.");
  for (const auto& [reason, member] : tcp) to.add(total(member), {{"reason", reason}});
  to.counters("tcp_accepted_total", "Number of TCP connections accepted from clients.")
      .add(total(&WorkerCounters::tcp_accepted));
  to.counters("dns_do_requests_total", "Number of queries with the DO bit.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.do_requests.value(); }));
  to.counters("dns_rate_limited_total",
              "Number of queries over the rate limit of their client, by action.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.limited_dropped.value(); }),
           {{"action", "drop"}})
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.limited_truncated.value(); }),
           {{"action", "truncate"}});
  to.counters("dns_cookies_total",
              "Number of queries with a DNS cookie, by the result of its check.");
  for (std::size_t check = 0; check < kCookieChecks; ++check)
    to.add(sum(workers, [&](const WorkerStatus& w) { return w.query.cookies[check].value(); }),
           {{"cookie", std::string(to_string(static_cast<CookieCheck>(check)))}});
  to.counters("dns_rejected_total",
              "Number of queries answered with SERVFAIL because too many queries were waiting.")
      .add(sum(workers, [](const WorkerStatus& w) { return w.query.rejected_waiting.value(); }));
}

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

void collect_forwarding(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  const auto total = [&](const std::atomic<std::uint64_t> ForwardCounters::* counter) {
    return sum(workers, [&](const WorkerStatus& w) {
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

ClientMetric::Histogram latency_of(const UpstreamStatus& upstream) {
  ClientMetric::Histogram histogram;
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
            "1 while the upstream server answers nothing but SERVFAIL and REFUSED.");
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

double unix_time(std::chrono::steady_clock::time_point then) {
  const auto age = std::chrono::steady_clock::now() - then;
  const auto moment = std::chrono::system_clock::now() - age;
  return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

void collect_sources(MetricCollection& to, const std::vector<SourceReport>& sources) {
  to.gauges("source_complete", "1 once the source has been read completely.");
  for (const auto& [source, changed] : sources)
    to.add(source.complete ? 1.0 : 0.0, {{"name", source.name}});
  to.gauges("source_broken",
            "Number of files or collections of the source that are broken; their last good state "
            "is used.");
  for (const auto& [source, changed] : sources) to.add(source.broken, {{"name", source.name}});
  to.gauges("source_failing", "1 while the source reports an error (see /readyz).");
  for (const auto& [source, changed] : sources)
    to.add(source.last_error.empty() ? 0.0 : 1.0, {{"name", source.name}});
  to.counters("source_changes_total",
              "Number of changed files or collections that the source delivered.");
  for (const auto& [source, changed] : sources) to.add(source.changes, {{"name", source.name}});
  to.gauges("source_last_change_timestamp_seconds",
            "Unix time of the last change that the source delivered.");
  for (const auto& [source, changed] : sources) to.add(unix_time(changed), {{"name", source.name}});
}

ClientMetric::Histogram histogram_of(const registry::DelayHistogram& delays) {
  ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < delays.counts.size(); ++i) {
    histogram.sample_count += delays.counts[i];
    const double limit = i < registry::DelayHistogram::kLimits.size()
                             ? registry::DelayHistogram::kLimits[i]
                             : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, limit});
  }
  histogram.sample_sum = delays.sum;
  return histogram;
}

// Of sources that follow a cluster's API; nothing where there are none.
void collect_clusters(MetricCollection& to, const std::vector<SourceReport>& sources) {
  std::vector<const registry::SourceStatus*> clusters;
  for (const auto& [source, changed] : sources)
    if (source.cluster) clusters.push_back(&source);
  if (clusters.empty()) return;
  const auto each_collection = [&](auto value) {
    for (const auto* source : clusters)
      for (const auto& collection : source->cluster->collections)
        to.add(static_cast<double>(value(collection)),
               {{"name", source->name}, {"collection", collection.name}});
  };
  using Collected = const registry::CollectionStatus&;
  to.gauges("kubernetes_reachable", "1 while the API server answers.");
  for (const auto* source : clusters)
    to.add(source->cluster->reachable ? 1.0 : 0.0, {{"name", source->name}});
  to.gauges("kubernetes_synced", "1 once the collection has been listed completely.");
  each_collection([](Collected c) { return c.synced ? 1 : 0; });
  to.gauges("kubernetes_watching", "1 while a watch of the collection is open.");
  each_collection([](Collected c) { return c.watching ? 1 : 0; });
  to.gauges("kubernetes_forbidden",
            "1 while the API server denies access to the collection (403).");
  each_collection([](Collected c) { return c.trouble == "forbidden" ? 1 : 0; });
  to.gauges("kubernetes_objects", "Number of objects in the collection.");
  each_collection([](Collected c) { return c.objects; });
  to.gauges("kubernetes_refused_objects",
            "Number of invalid objects in the collection; their last valid version is used, if "
            "there is one.");
  each_collection([](Collected c) { return c.refused; });
  to.gauges("kubernetes_silence_seconds",
            "Time since the last message of the API server about the collection.");
  each_collection([](Collected c) { return c.silent_seconds; });
  to.counters("kubernetes_lists_total", "Number of complete lists of the collection.");
  each_collection([](Collected c) { return c.lists; });
  to.counters("kubernetes_relists_total",
              "Number of complete lists of the collection after the first.");
  each_collection([](Collected c) { return c.relists; });
  to.counters("kubernetes_watches_total", "Number of watches opened for the collection.");
  each_collection([](Collected c) { return c.watches; });
  to.counters("kubernetes_events_total", "Number of watch events received for the collection.");
  each_collection([](Collected c) { return c.events; });
  to.counters("kubernetes_errors_total",
              "Number of lists and watches that failed or were refused.");
  each_collection([](Collected c) { return c.errors; });
  to.histograms("kubernetes_programming_duration_seconds",
                "Time until answers show a change, measured from its event and, for "
                "EndpointSlices, from the change that caused it.");
  for (const auto* source : clusters) {
    to.add(histogram_of(source->cluster->from_arrival),
           {{"name", source->name}, {"since", "event"}});
    to.add(histogram_of(source->cluster->from_trigger),
           {{"name", source->name}, {"since", "change"}});
  }
}

// Adds the streams of istiod sources; nothing where there are none.
void collect_control_planes(MetricCollection& to, const std::vector<SourceReport>& sources) {
  using Status = const registry::ControlPlaneStatus&;
  const bool has_any = std::ranges::any_of(
      sources, [](const auto& report) { return report.status.control_plane.has_value(); });
  if (!has_any) return;
  const auto each = [&](auto value) {
    for (const auto& [source, changed] : sources)
      if (source.control_plane)
        to.add(static_cast<double>(value(*source.control_plane)), {{"name", source.name}});
  };
  to.gauges("istiod_connected", "1 while the stream from istiod is open.");
  each([](Status s) { return s.connected ? 1 : 0; });
  to.gauges("istiod_names", "Number of names that istiod has pushed and not taken back.");
  each([](Status s) { return s.names; });
  to.gauges("istiod_refused_names",
            "Number of invalid names in the name table; their last valid version is used, if there "
            "is one.");
  each([](Status s) { return s.refused; });
  to.gauges("istiod_silence_seconds", "Time since the last push of istiod.");
  each([](Status s) { return s.silent_seconds; });
  to.counters("istiod_connects_total", "Number of streams that were begun.");
  each([](Status s) { return s.connects; });
  to.counters("istiod_pushes_total", "Number of pushes that were taken over (ACK).");
  each([](Status s) { return s.pushes; });
  to.counters("istiod_refused_pushes_total", "Number of pushes that were refused (NACK).");
  each([](Status s) { return s.refused_pushes; });
  to.counters("istiod_changed_names_total", "Number of names that pushes have changed.");
  each([](Status s) { return s.changed_names; });
  to.counters("istiod_push_bytes_total", "Number of bytes of all pushes.");
  each([](Status s) { return s.bytes; });
}

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
      .add(snapshot.from_state_dir ? 1.0 : 0.0);
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
            "Number of findings across resources (docs/findings.md), by id.");
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

// Of all keys, defaults included.  Stable: machines are to be compared.
std::string config_hash(const Config& config) {
  return fmt::format("{:016x}", stable_hash(to_json(config)));
}

void collect_daemon(MetricCollection& to, const DaemonParts& daemon, const WorkersStatus& workers) {
  const ReloadStatus& reloads = daemon.reloads;
  to.gauges("build_info", "Always 1; the label has the version.")
      .add(1.0, {{"version", MESHDNS_VERSION}});
  to.gauges("workers", "Number of worker threads.").add(workers.each.size());
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
  const std::vector<SourceReport> sources = daemon.sources();
  MetricCollection collection;
  collect_daemon(collection, daemon, all_workers);
  collect_process(collection, unix_time(daemon.started));
  collect_requests(collection, workers);
  collect_responses(collection, workers);
  collect_durations(collection, workers);
  collect_connections(collection, workers);
  collect_drops(collection, workers);
  collect_cache(collection, daemon.forwarding.cache.statistics());
  collect_forwarding(collection, workers);
  collect_upstreams(collection, upstream_status(daemon));
  collect_sources(collection, sources);
  collect_clusters(collection, sources);
  collect_control_planes(collection, sources);
  collect_registry(collection, daemon);
  collect_resolver(collection, daemon.resolver.counters());
  return collection.text();
}

}  // namespace meshdns::dnsd
