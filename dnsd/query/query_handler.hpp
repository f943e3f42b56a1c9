// SPDX-License-Identifier: Apache-2.0
// From a query's octets to an answer's: refusals first, in protocol order, then the registry, then
// whoever is asked upstream.  One per worker.
//
//     on_batch -> parse -> refuse | answer from the registry (no lock, no allocation)
//                                 | from the cache | hold: wait for an upstream or a new snapshot
//
// decision.hpp decides about answers; the handler holds waiting queries and counts.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/failing_names.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query/query_settings.hpp"
#include "dnsd/query/upstream_access.hpp"
#include "registry/snapshot/publisher.hpp"

namespace meshdns::dnsd {

// The parts that a handler uses.  REQUIRES: all outlive it.
struct QueryHandlerParts {
  registry::Publisher& publisher;
  UpstreamAccess& upstream;
  ReplySender& replies;
  QueryClock& clock;
  QueryLog* log = nullptr;  // null = off
  // The idle timeout of TCP connections now, for RFC 7828; empty = the option is not answered.
  std::function<std::chrono::milliseconds()> tcp_idle_timeout;
};

// The worker's thread only, unless said otherwise.
class QueryHandler final : public QuerySink {
 public:
  // Queries that wait at a time, all clients together and one of them; beyond: SERVFAIL.
  static constexpr std::size_t kMaxWaiting = 16384;
  static constexpr std::size_t kMaxWaitingPerClient = 4096;

  QueryHandler(QueryHandlerParts parts, QuerySettings settings);
  ~QueryHandler() override;
  QueryHandler(const QueryHandler&) = delete;
  QueryHandler& operator=(const QueryHandler&) = delete;

  std::size_t on_query(std::span<std::uint8_t> buffer, std::size_t query_size,
                       const ReplyTo& reply_to) override;
  void on_batch(std::span<Datagram> batch) override;
  std::size_t in_flight() const override;
  // Also closes the upstream and the clock.
  void on_stop() override;

  // A snapshot was published: queries that wait for a set's first addresses are looked at again.
  // Post it to the worker from the publisher's listener.
  void on_snapshot();
  // Takes over other settings; queries that wait keep their deadline.
  void reconfigure(QuerySettings settings);
  void set_log(QueryLog* log);

  // Any thread.
  const QueryCounters& counters() const;
  FailingNames& failing_names();
  // One of the clients that have been over their rate limit since the last call.
  std::optional<IpAddress> take_limited();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
