// SPDX-License-Identifier: Apache-2.0
// From a query's octets to an answer's: refusals first, in protocol order, then the registry, then
// whoever is asked upstream.  One per worker.
//
//     on_batch -> parse -> refuse | answer from the registry (no lock, no allocation)
//                                 | from the cache | hold: wait for an upstream or a new snapshot
//
// decision.hpp decides about answers; the handler holds waiting queries and counts: answering is in
// query_handler.cpp, forwarding in query_forwarding.cpp, waiting in query_waiting.cpp.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/endpoint_answer.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/kernel/kernel_offers.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/asked_hosts.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query/query_state.hpp"
#include "dnsd/query/rate_limiter.hpp"
#include "dnsd/query/reply_options.hpp"
#include "dnsd/query/top_queries.hpp"
#include "dnsd/query/upstreams.hpp"
#include "registry/snapshot/publisher.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/message_writer.hpp"

namespace meshdns::dnsd {

// The client of a question whose source address does not tell it.
struct Asker {
  const registry::Client* client = nullptr;  // never null
  std::string_view endpoint_name = {};       // View::leave_out_users_of()
};

// The parts that a handler uses.  REQUIRES: all outlive it.
struct QueryHandlerParts {
  registry::Publisher& publisher;
  Upstreams& upstream;
  ReplySender& replies;
  QueryClock& clock;
  QueryLog* log = nullptr;  // null = off
  // The idle timeout of TCP connections now, for RFC 7828; empty = the option is not answered.
  std::function<std::chrono::milliseconds()> tcp_idle_timeout;
  // Null: the client of the source address asks.  Valid until the next call.  Such a client has no
  // search list, and gets records in the order that they have.
  std::function<Asker(const ReplyTo&)> asker = {};
};

// Remembers which host a client means by a name that no object gave it: the last ones, by client
// and name, as of the snapshot in use.
class MeantNames {
 public:
  struct Meant {
    std::uint64_t tag = 0;                       // of the client, name and generation
    const registry::HostEntry* entry = nullptr;  // null: no object has the name
    const registry::Symbol* ns = nullptr;
    AskedResult result = AskedResult::Outside;
  };
  Meant& at(std::uint64_t tag) { return all_[tag % all_.size()]; }

 private:
  std::array<Meant, 512> all_{};
};

// The worker's thread only, unless said otherwise.
class QueryHandler final : public QuerySink {
 public:
  // Queries that wait at a time, all clients together and one of them; beyond: SERVFAIL.
  static constexpr std::size_t kMaxWaiting = 16384;
  static constexpr std::size_t kMaxWaitingPerClient = 4096;

  QueryHandler(QueryHandlerParts parts, QuerySettings settings);
  ~QueryHandler() override = default;
  QueryHandler(const QueryHandler&) = delete;
  QueryHandler& operator=(const QueryHandler&) = delete;

  std::size_t on_query(std::span<std::uint8_t> buffer, std::size_t query_size,
                       const ReplyTo& reply_to) override;
  void on_batch(std::span<Datagram> batch) override;
  std::size_t in_flight() const override { return held_.size(); }
  // Also closes the upstream and the clock.
  void on_stop() override;

  // A snapshot was published: queries that wait for a set's first addresses are looked at again.
  // Post it to the worker from the publisher's listener.
  void on_snapshot();
  // Takes over other settings; queries that wait keep their deadline.
  void reconfigure(QuerySettings settings);
  void set_log(QueryLog* log) { parts_.log = log; }
  // Offers answers to the program in the kernel from the next batch on; null = no more.
  void feed_kernel(std::shared_ptr<const KernelFeed> feed);
  // Counts what clients ask for from the next batch on, and hands it to `inbox`; null = no more.
  // `has_names`: see AskedHosts.
  void count_asked(std::shared_ptr<AskedInbox> inbox, bool has_names);
  // Hands over what was counted until now.  After the worker's end the control thread may call it.
  void hand_over_asked();

  // Any thread.
  const QueryCounters& counters() const { return counters_; }
  FailingNames& failing_names() { return failing_names_; }
  // The names that REGISTRY_ONLY refuses or would refuse, since the start.
  const FailingNames& outside_names() const { return outside_names_; }
  TopQueries& top() { return top_; }
  // One of the clients that have been over their rate limit since the last call.
  std::optional<IpAddress> take_limited() { return limiter_.take_limited(); }

 private:
  using Buffer = std::span<std::uint8_t>;
  static constexpr std::size_t kBatchSize = 64;
  // nullopt: the chain or the walk has moved on, decide again.
  using Written = std::optional<std::size_t>;

  // --- answering ---
  void answer_batch(std::span<Datagram> batch);
  void fetch_ahead(std::size_t size, const registry::Snapshot& snapshot);
  std::size_t answer(QueryState& state, wire::ParseOutcome outcome,
                     const registry::Snapshot& snapshot, Buffer buffer);
  void check_cookie(QueryState& state);
  Written limit(QueryState& state, wire::ParseOutcome outcome, Buffer buffer);
  std::size_t answer_cookie_query(QueryState& state, Buffer buffer);
  std::size_t answer_question(QueryState& state, const registry::Snapshot& snapshot, Buffer buffer);
  std::size_t answer_class_chaos(QueryState& state, const registry::Snapshot& snapshot,
                                 const registry::Client& client, Buffer buffer);
  std::size_t resolve(QueryState& state, const registry::View& view, Buffer buffer);
  std::size_t stop_working(QueryState& state, Buffer buffer);
  std::size_t write_decision(QueryState& state, const registry::View& view,
                             const Decision& decision, Buffer buffer);
  void offer_to_kernel(const QueryState& state, const registry::View& view,
                       const Decision& decision, std::span<const std::uint8_t> reply);
  std::size_t refuse(QueryState& state, std::string_view why, Buffer buffer);
  std::size_t refuse_unknown(QueryState& state, Buffer buffer);
  std::size_t reject_type(QueryState& state, Buffer buffer);
  // Octets of reply that the client takes.
  static std::size_t reply_limit(const wire::QueryMessage& query, bool tcp, std::size_t capacity);
  static bool is_kept_short(const QueryState& state);
  std::size_t fail(QueryState& state, wire::Ede code, std::string_view why, Buffer buffer);
  std::size_t write_rcode(QueryState& state, wire::Rcode rcode, Buffer buffer);
  wire::MessageWriter begin_reply(const QueryState& state, Buffer buffer) const;
  static void begin_walk(QueryState& state, const registry::View& view, const Decision& decision);
  static void walk_on(QueryState& state, const registry::View& view);
  // False when this is no step of a walk, but the name that was asked.
  static bool stop_walk(QueryState& state, wire::Ede why);

  Asked asked(const QueryState& state, std::span<char> odd_name) const;
  // The same for the last name of the chain.
  Asked asked_last(const QueryState& state, std::span<char> odd_name) const;
  AnswerContext context_of(const QueryState& state, const registry::View& view,
                           wire::MessageWriter& writer);
  std::span<const IpAddress> server_addresses(const ReplyTo& reply_to) const;
  ReplyOptions options(const QueryState& state) const;
  DescribeForwarding describe_forwarding() const;

  // Null: unknown to the registry.
  const registry::Client* find_client(const registry::Snapshot& snapshot,
                                      const ReplyTo& reply_to) const;
  void limit_view(registry::View& view, const ReplyTo& reply_to) const;
  std::uint32_t next_rotation() { return parts_.asker ? 0 : rotation_.next(); }

  // --- forwarding ---
  Written forward(QueryState& state, const registry::View& view, Buffer buffer);
  Written forward_question(QueryState& state, const registry::View& view, Buffer buffer);
  std::size_t answer_any_minimally(QueryState& state, const registry::View& view, Buffer buffer);
  Written use(QueryState& state, const registry::View& view, const CachedMessage& message,
              Freshness freshness, Buffer buffer);
  Written use_alias(QueryState& state, const registry::View& view, const CachedMessage& message,
                    Freshness freshness, Buffer buffer);
  Written use_denial(QueryState& state, const registry::View& view, const CachedMessage& message,
                     Buffer buffer);
  bool knows_name(const QueryState& state, const registry::View& view) const;
  Written deny_type(QueryState& state, const registry::View& view, Buffer buffer);
  std::size_t relay(QueryState& state, const CachedMessage& message, Freshness freshness,
                    Buffer buffer);
  std::size_t compose(QueryState& state, const CachedMessage& message, Freshness freshness,
                      Buffer buffer);
  bool asks_for_ipv4(QueryState& state, const CachedMessage& message) const;
  std::size_t relay_untranslated(QueryState& state, Buffer buffer);
  Written ask(QueryState& state, Buffer buffer);
  ForwardRequest request_of(const QueryState& state) const;
  ReplyFrame frame_of(const QueryState& state, Buffer buffer);

  // --- waiting ---
  std::size_t hold_for_snapshot(QueryState& state, Buffer buffer);
  // The same query where it waits already; null: too many do.
  HeldQuery* hold(QueryState& state, std::uint64_t& number);
  void on_outcome(std::uint64_t number, const Outcome& outcome);
  void decide_again(std::uint64_t number);
  // Runs `answer` for a waiting query and sends the reply, unless the query must wait longer.
  template <typename Answer>
  void continue_held(std::uint64_t number, Answer&& answer);
  void expire();
  void arm_timer();

  // --- what clients ask for (query_asked.cpp) ---
  void note_asked(QueryState& state, const registry::View& view, const Decision& decision);
  void note_unknown(QueryState& state, const registry::View& view,
                    const AskedHosts::Question& question);
  void note_outside_reply(const QueryState& state, wire::Rcode rcode, bool has_records);

  // --- counting ---
  void count_request(const QueryState& state);
  std::size_t count_reply(QueryState& state, Buffer reply, wire::Rcode rcode, std::size_t size);
  void count_duration(std::uint64_t nanoseconds, std::uint64_t queries);
  void note_query(const QueryState& state, wire::ParseOutcome outcome);
  void note_refused(const QueryState& state, TopQueries::Refusal refusal);
  void note_outside(const QueryState& state, const Decision& decision);
  void log(const QueryState& state, Buffer reply, wire::Rcode rcode, std::size_t size) const;

  QueryHandlerParts parts_;
  QuerySettings settings_;
  QueryCounters counters_;
  FailingNames failing_names_;
  FailingNames outside_names_;
  TopQueries top_;
  RateLimiter limiter_;
  HeldQueries held_{kMaxWaiting, kMaxWaitingPerClient};
  registry::Publisher::Reader reader_;
  RotationTable rotation_;
  std::shared_ptr<AskedInbox> asked_inbox_;  // null = nothing is counted
  std::unique_ptr<AskedHosts> asked_;        // null likewise
  std::unique_ptr<MeantNames> meant_;        // null likewise
  PassedAliases passed_;                     // by the query that is answered; only with asked_
  std::unique_ptr<KernelOffers> kernel_;     // null = off
  registry::ReadNames reads_;                // of the query that is answered; only with kernel_
  bool stopped_ = false;

  // The query under way.
  const registry::Client* client_ = nullptr;  // null: refused before it was known
  std::uint64_t held_number_ = 0;  // it waits already under this number; 0 = it has just come
  const registry::HostEntry* likely_ = nullptr;  // the entry that lookup() will probably find
  std::uint64_t batch_started_ns_ = 0;

  // Reused from batch to batch.
  std::array<wire::QueryMessage, kBatchSize> messages_;
  std::array<wire::ParseOutcome, kBatchSize> outcomes_;
  std::array<std::uint64_t, kBatchSize> hashes_;
  std::array<const registry::HostEntry*, kBatchSize> entries_;  // by fetch_ahead(); null = none
  std::array<std::uint8_t, 256> options_;
  std::vector<std::uint8_t> late_buffer_;
};

}  // namespace meshdns::dnsd
