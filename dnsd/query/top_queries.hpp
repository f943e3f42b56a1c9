// SPDX-License-Identifier: Apache-2.0
// Counts the names that are asked most, the clients that ask most, the names whose upstream answers
// clients wait for longest, and the clients that are refused or over a limit: for one worker, in
// about 180 KiB, whatever clients send.
//
// The worker never waits for a reader: an event that meets one is not counted.  Frequent events are
// sampled (event_sampler.hpp), so that counting costs about 1 ms of CPU time a second at most.
// Counts are kept in two halves of 30 s.  The older one is discarded when a new one begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

#include "dnsd/query/event_sampler.hpp"
#include "dnsd/query/heavy_hitters.hpp"
#include "dnsd/query/top_report.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// The worker's thread, unless said otherwise.  Times are nanoseconds of a monotonic clock.
class TopQueries {
 public:
  static constexpr std::uint64_t kHalf = 30'000'000'000;
  // The longest text of a name.  Of a longer one, the last labels are kept.
  static constexpr std::size_t kNameSize = 90;

  TopQueries(std::uint64_t now, std::uint64_t seed);

  // --- queries: is_due() for each, and note_query() or put_off() when it is true ---
  void begin_batch(std::uint64_t now) { queries_.observe(now); }
  bool is_due() { return queries_.is_due(); }
  void put_off() { queries_.put_off(); }
  // A query for `name` (QueryMessage::qname()).  `ns`: of the client; empty = unknown.
  void note_query(std::string_view name, const IpAddress& client, std::string_view ns,
                  std::uint64_t now);
  // The same for a query that stands for `weight` of them, chosen elsewhere.
  void note_sampled_query(std::string_view name, const IpAddress& client, std::string_view ns,
                          std::uint32_t weight, std::uint64_t now);
  // note_query() for a query without a readable name.
  void note_nameless_query(const IpAddress& client, std::uint64_t now);

  // --- less frequent events, each of which is noted ---
  // The answer to a query for `name` had to wait for upstream servers.
  void note_forwarded(std::string_view name, std::uint64_t waited, std::uint64_t now);
  enum class Refusal : std::uint8_t {
    Refused,  // server.allow, client.unknown, types and classes that are not served
    Limited,  // server.rate_limit, or too many queries that wait
  };
  void note_refused(const IpAddress& client, Refusal refusal, std::uint64_t now);

  // Merges the counts of several workers; each list has at most `limit` entries.  Any thread.
  static TopReport report(std::span<TopQueries* const> workers, std::size_t limit,
                          std::uint64_t now);

 private:
  static constexpr std::size_t kAddressSize = 16;
  static constexpr std::size_t kNamespaceSize = 63;
  using Names = HeavyHitters<256, kNameSize, 1024, std::uint32_t>;
  using Clients = HeavyHitters<256, kAddressSize, 1024, std::uint32_t>;
  using Namespaces = HeavyHitters<64, kNamespaceSize, 256, std::uint32_t>;
  using Forwarded = HeavyHitters<64, kNameSize, 512, std::uint64_t>;
  using Refused = HeavyHitters<64, kAddressSize, 512, std::uint32_t>;
  struct Half {
    std::uint64_t number = 0;  // the time divided by kHalf
    Names names;
    Clients clients;
    Namespaces namespaces;
    Forwarded forwarded;
    Refused refused;
  };
  using Halves = std::array<Half, 2>;

  Half& half_at(std::uint64_t now);
  void note_client(Half& half, const IpAddress& client, std::uint32_t weight);

  const std::uint64_t began_;
  EventSampler queries_;
  EventSampler waits_;
  EventSampler refusals_;
  std::mutex mutex_;
  Halves halves_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
