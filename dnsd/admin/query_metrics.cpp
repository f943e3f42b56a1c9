// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "dnsd/admin/metric_groups.hpp"

namespace meshdns::dnsd {
namespace {

void collect_requests(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
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

void collect_responses(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
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

void collect_durations(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  prometheus::ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < QueryCounters::kDurationBuckets; ++i) {
    histogram.sample_count +=
        sum_over(workers, [&](const WorkerStatus& w) { return w.query.duration[i].value(); });
    histogram.bucket.push_back({histogram.sample_count, QueryCounters::duration_limit(i)});
  }
  histogram.sample_sum = 1e-9 * static_cast<double>(sum_over(workers, [](const WorkerStatus& w) {
                           return w.query.duration_sum_ns.value();
                         }));
  to.histograms("dns_request_duration_seconds", "Time from the arrival of a query to its response.")
      .add(std::move(histogram));
}

using Sizes = SizeHistogram WorkerCounters::*;

void collect_sizes(MetricCollection& to, const std::vector<WorkerStatus>& workers, const char* name,
                   const char* help, Sizes udp, Sizes tcp) {
  to.histograms(name, help);
  for (const auto& [transport, sizes] : {std::pair("udp", udp), std::pair("tcp", tcp)}) {
    const auto sum = [&](auto read) {
      return sum_over(workers, [&](const WorkerStatus& w) { return read(w.net.*sizes); });
    };
    prometheus::ClientMetric::Histogram histogram;
    for (std::size_t i = 0; i < SizeHistogram::kBuckets; ++i) {
      histogram.sample_count += sum([&](const SizeHistogram& h) { return h.count(i); });
      histogram.bucket.push_back(
          {histogram.sample_count, static_cast<double>(SizeHistogram::limit(i))});
    }
    histogram.bucket.push_back({histogram.sample_count, std::numeric_limits<double>::infinity()});
    histogram.sample_sum = static_cast<double>(sum([](const SizeHistogram& h) { return h.sum(); }));
    to.add(std::move(histogram), {{"proto", transport}});
  }
}

void collect_connections(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  to.gauges("tcp_connections", "Number of open TCP connections of clients.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.net.tcp_open.value(); }));
  to.gauges("tcp_held_bytes", "Bytes of incomplete queries and unsent responses of TCP clients.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.net.tcp_held.value(); }));
  to.gauges(
        "dns_waiting",
        "Number of queries that wait for an upstream server or for the first addresses of a host.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.waiting.value(); }));
  to.counters("dns_truncated_total", "Number of responses with the TC bit.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.truncated.value(); }));
  to.counters("dns_overworked_total",
              "Number of queries answered with SERVFAIL because their aliases and search domains "
              "needed too much work.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.overworked.value(); }));
  to.counters("dns64_requests_translated_total",
              "Number of responses with IPv6 addresses made from IPv4 addresses.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.translated.value(); }));
  to.counters("udp_socket_overflow_total",
              "Number of queries dropped by the kernel because the receive buffer was full.")
      .add(sum_over(workers,
                    [](const WorkerStatus& w) { return w.net.udp_socket_overflow.value(); }));
}

// Adds the faults of clients and their network, by outcome.
void collect_drops(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  using Member = Counter WorkerCounters::*;
  const auto total = [&](Member member) {
    return sum_over(workers, [&](const WorkerStatus& w) { return (w.net.*member).value(); });
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
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.do_requests.value(); }));
  to.counters("dns_rate_limited_total",
              "Number of queries over the rate limit of their client, by action.")
      .add(sum_over(workers, [](const WorkerStatus& w) { return w.query.limited_dropped.value(); }),
           {{"action", "drop"}})
      .add(sum_over(workers,
                    [](const WorkerStatus& w) { return w.query.limited_truncated.value(); }),
           {{"action", "truncate"}});
  to.counters("dns_cookies_total",
              "Number of queries with a DNS cookie, by the result of its check.");
  for (std::size_t check = 0; check < kCookieChecks; ++check)
    to.add(sum_over(workers, [&](const WorkerStatus& w) { return w.query.cookies[check].value(); }),
           {{"cookie", std::string(to_string(static_cast<CookieCheck>(check)))}});
  to.counters("dns_rejected_total",
              "Number of queries answered with SERVFAIL because too many queries were waiting.")
      .add(sum_over(workers,
                    [](const WorkerStatus& w) { return w.query.rejected_waiting.value(); }));
}

}  // namespace

void collect_queries(MetricCollection& to, const std::vector<WorkerStatus>& workers) {
  collect_requests(to, workers);
  collect_responses(to, workers);
  collect_durations(to, workers);
  collect_sizes(to, workers, "dns_request_size_bytes",
                "Size of a query that is answered, by transport, without the length in front of it "
                "over TCP.",
                &WorkerCounters::udp_query_sizes, &WorkerCounters::tcp_query_sizes);
  collect_sizes(to, workers, "dns_response_size_bytes",
                "Size of a response, by transport, without the length in front of it over TCP.",
                &WorkerCounters::udp_reply_sizes, &WorkerCounters::tcp_reply_sizes);
  collect_connections(to, workers);
  collect_drops(to, workers);
}

}  // namespace meshdns::dnsd
