// SPDX-License-Identifier: Apache-2.0
// One query on its way to its answer.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dnsd/answer/alias_chain.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/server_cookies.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/forward/datagram_sockets.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// `search_shortcut: all`: a name that ends in the first of the client's search domains and is known
// to nobody is the client's resolver walking its list (walked_name()).  We walk the rest of it at
// once, in the resolver's order, so that the client asks once and ends where its own walk would:
// an outside name costs an upstream query more for each domain outside the cluster.
// A value.  Allocates when it begins.
class SearchWalk {
 public:
  bool is_active() const { return active_; }
  bool is_over() const { return over_; }
  // Walks on with `rest` in each domain but the first, and last as it is.  REQUIRES: canonical
  // names, a first domain, not yet begun.
  void begin(std::string_view rest, const std::vector<std::string>& domains);
  // The next name to try; empty: there is none, and the walk is over.
  std::string_view next();
  // Ends the walk before that.
  void stop(wire::Ede why);

  // The upstream's own denial of the name that was asked, where it was asked; else null.
  MessageRef denial;
  // Why the walk was stopped; nullopt: it was not.
  std::optional<wire::Ede> stopped_by;

 private:
  bool active_ = false;
  bool over_ = false;
  std::size_t next_ = 0;
  std::vector<std::string> names_;
};

struct QueryState {
  const wire::QueryMessage* query = nullptr;
  const ReplyTo* reply_to = nullptr;
  std::size_t query_size = 0;
  std::uint64_t started_ns = 0;
  AliasChain chain;
  SearchWalk walk;
  // The client is not in server.allow, or unknown to the registry.
  bool is_stranger = false;
  // The question's own name was answered here, not upstream: AA.
  bool authoritative = false;
  // The result of checking the client's cookie; nullopt: no cookie, or cookies are off for it.
  std::optional<CookieCheck> cookie;
  // DNS64: the answer to AAAA in place of which addresses of IPv4 are translated; null = none yet.
  MessageRef without_ipv6;
  AnswerSource source = AnswerSource::Registry;
  std::string upstream;             // the upstream server
  std::uint32_t questions = 0;      // asked upstream for this query
  std::uint32_t packets = 0;        // that they took; limited
  std::size_t replied_aliases = 0;  // in the replies; limited
  Millis give_up_at = 0;            // no more of them after that; 0 = none was sent
  bool is_asked_noted = false;      // some host was noted for it (QueryHandler::note_asked)
  // The octets of qname() that are the name that the client means, where no object has it and the
  // answer decides how it is noted; 0: nothing is to be noted.
  std::uint8_t outside_size = 0;
  // Names that were decided about for this query, its aliases and its search walk included.
  std::uint32_t decisions = 0;

  bool is_tcp() const { return reply_to->client.tcp; }
};

// A query that waits, with all that its octets held.
struct HeldQuery final : Recycled<HeldQuery> {
  // Copies `from` and the data that it refers to.
  explicit HeldQuery(const QueryState& from);
  HeldQuery(const HeldQuery&) = delete;
  HeldQuery& operator=(const HeldQuery&) = delete;

  wire::QueryMessage query;
  ReplyTo reply_to;
  std::array<std::uint8_t, wire::kMaxNameLength + 4> question;
  QueryState state;
  Millis give_up_at = 0;  // only while it waits for a snapshot
  bool awaits_snapshot = false;
};

// The queries of one worker that wait, by number, with the limits on how many may.
class HeldQueries {
 public:
  HeldQueries(std::size_t limit, std::size_t limit_per_client)
      : limit_(limit), limit_per_client_(limit_per_client) {}

  // Null: too many wait already.
  HeldQuery* add(const QueryState& state, std::uint64_t& number);
  HeldQuery* find(std::uint64_t number);
  void remove(std::uint64_t number);
  // Numbers of those that wait for a snapshot and have waited long enough at `now`; with kAll, of
  // all that wait for one.
  static constexpr Millis kAll = ~Millis{0};
  std::vector<std::uint64_t> awaiting_snapshot(Millis now) const;
  // The time when the first of them gives up; kAll: none waits.
  Millis next_deadline() const;
  std::size_t size() const { return queries_.size(); }
  void clear();

 private:
  const std::size_t limit_;
  const std::size_t limit_per_client_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<HeldQuery>> queries_;
  std::unordered_map<IpAddress, std::size_t> by_client_;
};

}  // namespace meshdns::dnsd
