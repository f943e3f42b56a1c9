// SPDX-License-Identifier: Apache-2.0
// Counters of the query path of one worker.  Only that worker writes them, without locked
// instructions; any thread may read them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dnsd/net/counters.hpp"
#include "dnsd/query/server_cookies.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// The origin of an answer.
enum class AnswerSource : std::uint8_t {
  Registry,     // a visible object
  ClusterZone,  // the shape of the cluster domain or of a reverse zone
  Special,      // localhost, invalid, onion, alt
  Local,        // the hosts file, overrides
  Cache,
  Stale,
  Forward,   // asked upstream for this query
  Chaos,     // class CH
  Refused,   // access, class, transfers
  Protocol,  // FORMERR, NOTIMP, BADVERS
  Failed,    // nothing could be had: SERVFAIL of our own
  Limited,   // truncated: over the client's rate limit
  Kernel,    // the program in the kernel, with an answer of the registry
};
inline constexpr std::size_t kAnswerSources = 13;
std::string_view to_string(AnswerSource source);  // "cluster_zone"

struct alignas(64) QueryCounters {
  // The types that have a series of their own; all others are "other".
  static constexpr std::array<wire::Type, 13> kTypes = {
      wire::Type::A,    wire::Type::Aaaa, wire::Type::Srv, wire::Type::Ptr, wire::Type::Cname,
      wire::Type::Txt,  wire::Type::Mx,   wire::Type::Ns,  wire::Type::Soa, wire::Type::Https,
      wire::Type::Svcb, wire::Type::Any,  wire::Type::Caa};
  static constexpr std::size_t kTypeSlots = kTypes.size() + 1;
  static std::size_t type_slot(wire::Type type);
  static std::string type_name(std::size_t slot);  // "AAAA", "other"

  static constexpr std::size_t kRcodeSlots = 12;  // 0..10; the last one is "other"
  static std::size_t rcode_slot(wire::Rcode rcode);
  static std::string_view rcode_name(std::size_t slot);

  // CoreDNS's buckets: 0.25 ms, doubling; the last is +Inf.  Not cumulative.
  static constexpr std::size_t kDurationBuckets = 17;
  static std::size_t duration_bucket(std::uint64_t nanoseconds);
  static double duration_limit(std::size_t bucket);  // seconds

  Counter requests[2][2][kTypeSlots];  // [tcp][IPv6][type]
  Counter do_requests;
  Counter responses[kRcodeSlots][kAnswerSources];
  Counter truncated;
  Counter duration[kDurationBuckets];
  Counter duration_sum_ns;
  Counter translated;  // DNS64: answers whose IPv6 addresses were made of IPv4 ones
  Counter waiting;     // a gauge: queries that wait for a set's first addresses or an upstream
  Counter rejected_waiting;  // too many waited already: SERVFAIL
  Counter overworked;        // given up since one query wanted too much work: SERVFAIL
  Counter outside_refused;   // REGISTRY_ONLY: of names that no visible object has
  Counter outside_audited;
  Counter limited_dropped;  // over the client's rate limit: no answer
  Counter limited_truncated;
  Counter cookies[kCookieChecks];  // of queries, where cookies are answered
};

}  // namespace meshdns::dnsd
