// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/query_handler.hpp"

#include <algorithm>
#include <cstring>

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/local_resolution.hpp"
#include "dnsd/query/chaos.hpp"
#include "dnsd/query/kernel_answer.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Snapshot;
using registry::View;
using wire::MessageWriter;
using wire::ParseOutcome;
using wire::QueryMessage;
using wire::Rcode;
using wire::Type;

// Decisions for one query: a search walk through 32 domains and the longest chain of aliases need
// less, a chain at each step of the walk does not.  One takes about half a microsecond.
constexpr std::uint32_t kMaxDecisions = 64;

constexpr std::string_view kWalkStopped = "the search list was not tried to its end";
constexpr std::string_view kFromEarlierRun = "from the state of an earlier run, not yet confirmed";
constexpr std::string_view kNotAllowed = "this client is not in server.allow";

// Zone transfers and mail agents are never served and never forwarded: nobody gets the registry as
// a whole.  OPT, TKEY and TSIG are not types of data.
bool is_refused_type(Type type) {
  constexpr Type kTkey{249};
  return type == Type::Axfr || type == Type::Ixfr || type == Type::Maila || type == Type::Mailb ||
         type == Type::Opt || type == kTkey || type == Type::Tsig;
}

// Types that no record has (RFC 6895, section 3.1): 0 is reserved, 128 to 248 are meta-types of
// which none has a meaning in a query.  FORMERR, as Unbound answers and RFC 9824, section 3.5 wants
// for NXNAME. The queries among the meta-types are known one by one: is_refused_type(), ANY.
bool is_invalid_type(Type type) {
  constexpr Type kFirstMetaType{128};
  constexpr Type kLastUnassigned{248};
  return type == Type{0} || (type >= kFirstMetaType && type <= kLastUnassigned);
}

// As it was sent; empty = none.
std::span<const std::uint8_t> cookie_of(const QueryMessage& query) {
  if (!query.has_edns) return {};
  return std::span(query.edns.cookie).first(query.edns.cookie_length);
}

bool is_local(Verdict verdict) {
  return verdict == Verdict::LocalAddresses || verdict == Verdict::LocalPointers ||
         verdict == Verdict::Denied || verdict == Verdict::Refused;
}

AnswerSource source_of(const Decision& decision) {
  if (decision.registry_only == RegistryOnlyEffect::Refused) return AnswerSource::Refused;
  if (is_local(decision.verdict)) return AnswerSource::Local;
  if (is_failure(decision.verdict)) return AnswerSource::Failed;
  if (decision.match) return AnswerSource::Registry;
  if (decision.is_empty_zone) return AnswerSource::Special;
  return is_special_name(decision.zone) ? AnswerSource::Special : AnswerSource::ClusterZone;
}

}  // namespace

std::size_t QueryHandler::reply_limit(const QueryMessage& query, bool tcp, std::size_t capacity) {
  if (tcp) return std::min(wire::kMaxMessageSize, capacity);
  if (!query.has_edns) return wire::kMinUdpPayload;
  return std::clamp<std::size_t>(query.edns.udp_payload, wire::kMinUdpPayload,
                                 wire::kMaxUdpPayload);
}

QueryHandler::QueryHandler(QueryHandlerParts parts, QuerySettings settings)
    : parts_(std::move(parts)),
      settings_(std::move(settings)),
      top_(parts_.clock.precise_now(), reinterpret_cast<std::uintptr_t>(this)),
      reader_(parts_.publisher),
      rotation_(reinterpret_cast<std::uintptr_t>(this) ^ parts_.clock.precise_now()) {
  limiter_.configure(settings_.rate_limit);
}

void QueryHandler::reconfigure(QuerySettings settings) {
  settings_ = std::move(settings);
  limiter_.configure(settings_.rate_limit);
}

// --- one query, or up to 64 ----------------------------------------------------------------------

std::size_t QueryHandler::on_query(Buffer buffer, std::size_t size, const ReplyTo& reply_to) {
  Datagram datagram{.buffer = buffer, .query_size = size, .reply_to = reply_to};
  on_batch({&datagram, 1});
  return datagram.reply_size;
}

void QueryHandler::on_batch(std::span<Datagram> batch) {
  while (!batch.empty()) {
    const std::size_t size = std::min(batch.size(), kBatchSize);
    answer_batch(batch.first(size));
    batch = batch.subspan(size);
  }
}

// All are parsed before any is looked up, so that the waits for memory overlap.
void QueryHandler::answer_batch(std::span<Datagram> batch) {
  batch_started_ns_ = parts_.clock.precise_now();
  top_.begin_batch(batch_started_ns_);
  if (kernel_) [[unlikely]]
    kernel_->begin();
  const Snapshot& snapshot = reader_.current();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    outcomes_[i] = parse_query(batch[i].buffer.first(batch[i].query_size), messages_[i]);
    if (outcomes_[i] != ParseOutcome::Ok) continue;
    hashes_[i] = hash_bytes(messages_[i].qname());
    snapshot.hosts.prefetch(hashes_[i]);
  }
  const bool is_fetched = batch.size() > 1;
  if (is_fetched) fetch_ahead(batch.size(), snapshot);

  std::uint64_t answered = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    QueryState state;
    state.query = &messages_[i];
    state.reply_to = &batch[i].reply_to;
    state.query_size = batch[i].query_size;
    state.started_ns = batch_started_ns_;
    likely_ = is_fetched ? entries_[i] : nullptr;
    batch[i].reply_size = answer(state, outcomes_[i], snapshot, batch[i].buffer);
    if (top_.is_due()) [[unlikely]]
      note_query(state, outcomes_[i]);
    if (batch[i].reply_size != kReplyLater && batch[i].reply_size != kNoReply) ++answered;
  }
  likely_ = nullptr;
  if (answered > 0) count_duration(parts_.clock.precise_now() - batch_started_ns_, answered);
  if (asked_ && asked_->is_nearly_full()) [[unlikely]]
    hand_over_asked();
}

// Each step reads what the one before it has asked for.  GCC takes a function that only prefetches
// for one without effect, and leaves out the calls of it that it can see through.
[[gnu::noipa]] void QueryHandler::fetch_ahead(std::size_t size, const Snapshot& snapshot) {
  std::array<const registry::HostEntry* const*, kBatchSize> places;
  for (std::size_t i = 0; i < size; ++i)
    places[i] =
        outcomes_[i] == ParseOutcome::Ok ? snapshot.hosts.prefetch_place(hashes_[i]) : nullptr;
  for (std::size_t i = 0; i < size; ++i) {
    entries_[i] = places[i] == nullptr ? nullptr : *places[i];
    if (entries_[i] != nullptr) entries_[i]->prefetch();
  }
  for (std::size_t i = 0; i < size; ++i)
    if (entries_[i] != nullptr) entries_[i]->prefetch_first_record();
}

// Refusals first, in the order of the protocol's layers.
std::size_t QueryHandler::answer(QueryState& state, ParseOutcome outcome, const Snapshot& snapshot,
                                 Buffer buffer) {
  client_ = nullptr;
  held_number_ = 0;
  if (outcome == ParseOutcome::Drop) return kNoReply;
  count_request(state);
  state.is_stranger = !settings_.allow.contains(state.reply_to->client.address);
  if (!state.is_stranger && !cookie_of(*state.query).empty()) [[unlikely]]
    check_cookie(state);
  if (limiter_.is_on() && !state.is_tcp()) [[unlikely]]
    if (const Written limited = limit(state, outcome, buffer)) return *limited;
  switch (outcome) {
    case ParseOutcome::Drop:
      return kNoReply;
    case ParseOutcome::FormErr:
      return write_rcode(state, Rcode::FormErr, buffer);
    case ParseOutcome::NotImp:
      return write_rcode(state, Rcode::NotImp, buffer);
    case ParseOutcome::BadVers:
      return write_rcode(state, Rcode::BadVers, buffer);
    case ParseOutcome::CookieOnly:
      return answer_cookie_query(state, buffer);
    case ParseOutcome::Ok:
      break;
  }
  if (state.is_stranger) return refuse(state, kNotAllowed, buffer);
  if (is_invalid_type(state.query->qtype)) return reject_type(state, buffer);
  if (is_refused_type(state.query->qtype)) return refuse(state, "not served", buffer);
  return answer_question(state, snapshot, buffer);
}

void QueryHandler::check_cookie(QueryState& state) {
  const IpAddress& client = state.reply_to->client.address;
  if (!settings_.answers_cookies_of(client)) return;
  state.cookie = dnsd::check_cookie(cookie_of(*state.query), client, *settings_.cookie_secrets,
                                    parts_.clock.unix_time());
  counters_.cookies[static_cast<std::size_t>(*state.cookie)].add();
}

// Nothing when the client may have its answer.  An error is as short as a truncated answer would
// be.  A client with a valid cookie is not forged, as over TCP.
QueryHandler::Written QueryHandler::limit(QueryState& state, ParseOutcome outcome, Buffer buffer) {
  if (state.cookie == CookieCheck::Valid) return {};
  switch (limiter_.judge(state.reply_to->client.address, state.started_ns)) {
    case RateLimiter::Verdict::Answer:
      return {};
    case RateLimiter::Verdict::Drop:
      counters_.limited_dropped.add();
      note_refused(state, TopQueries::Refusal::Limited);
      return kNoReply;
    case RateLimiter::Verdict::Truncate:
      counters_.limited_truncated.add();
      note_refused(state, TopQueries::Refusal::Limited);
      break;
  }
  if (outcome != ParseOutcome::Ok) return {};
  state.source = AnswerSource::Limited;
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_truncated();
  return count_reply(state, buffer, Rcode::NoError, writer.finish());
}

// RFC 7873, section 5.4: a client that wants a cookie of ours, or to hear whether its one is good.
std::size_t QueryHandler::answer_cookie_query(QueryState& state, Buffer buffer) {
  if (state.is_stranger) return refuse(state, kNotAllowed, buffer);
  if (!state.cookie) return write_rcode(state, Rcode::FormErr, buffer);
  const bool is_bad = state.cookie == CookieCheck::Invalid;
  return write_rcode(state, is_bad ? Rcode::BadCookie : Rcode::NoError, buffer);
}

std::size_t QueryHandler::answer_question(QueryState& state, const Snapshot& snapshot,
                                          Buffer buffer) {
  const wire::Class qclass = state.query->qclass;
  if (qclass != wire::Class::In && qclass != wire::Class::Chaos)
    return refuse(state, "only classes IN and CH are served", buffer);
  const registry::Client* const client = find_client(snapshot, *state.reply_to);
  if (client == nullptr) return refuse_unknown(state, buffer);
  client_ = client;
  if (qclass == wire::Class::Chaos) return answer_class_chaos(state, snapshot, *client, buffer);
  View view(snapshot, *client, likely_);
  limit_view(view, *state.reply_to);
  if (kernel_) [[unlikely]] {
    reads_.clear();
    view.note_reads(&reads_);
  }
  return resolve(state, view, buffer);
}

std::size_t QueryHandler::answer_class_chaos(QueryState& state, const Snapshot& snapshot,
                                             const registry::Client& client, Buffer buffer) {
  const Origin origin =
      settings_.chaos == ChaosAccess::Off ? Origin::Elsewhere : origin_of(state.reply_to->client);
  const bool is_allowed = may_ask_chaos(settings_.chaos, origin);
  if (!is_allowed && origin != Origin::Unproven)
    return refuse(state, "class CH is not served to this client (server.chaos)", buffer);
  state.source = AnswerSource::Chaos;
  MessageWriter writer = begin_reply(state, buffer);
  if (!is_allowed) {  // it asks again over TCP
    writer.set_truncated();
    return count_reply(state, buffer, Rcode::NoError, writer.finish());
  }
  answer_chaos({.query = *state.query,
                .source = state.reply_to->client,
                .origin = origin,
                .snapshot = snapshot,
                .client = client,
                .settings = settings_,
                .forwarding = describe_forwarding(),
                .kernel = kernel_ ? &kernel_->feed() : nullptr},
               writer);
  return count_reply(state, buffer, Rcode::NoError, writer.finish());
}

// --- the registry's answer -----------------------------------------------------------------------

std::size_t QueryHandler::resolve(QueryState& state, const View& view, Buffer buffer) {
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  for (;;) {
    if (state.decisions >= kMaxDecisions) return stop_working(state, buffer);
    const bool at_question = state.chain.empty();
    const std::size_t links = state.chain.size();
    Asked question = asked(state, odd_name);
    if (asked_) {
      passed_.clear();
      question.passed = &passed_;
    }
    const Decision decision = resolve_locally(view, question, state.chain);
    state.decisions += static_cast<std::uint32_t>(1 + state.chain.size() - links);
    const bool forwarded = decision.verdict == Verdict::Forward;
    if (at_question && !(forwarded && state.chain.empty())) state.authoritative = true;

    if (!parts_.asker) begin_walk(state, view, decision);
    if (decision.registry_only >= RegistryOnlyEffect::Audited) [[unlikely]] {
      note_outside(state, decision);
      if (!forwarded && state.walk.is_active()) {
        walk_on(state, view);
        continue;
      }
    }
    if (decision.verdict == Verdict::NxDomain && state.walk.is_active()) {
      walk_on(state, view);
      continue;
    }
    if (decision.verdict == Verdict::Wait) return hold_for_snapshot(state, buffer);
    if (asked_) note_asked(state, view, decision);
    if (!forwarded) return write_decision(state, view, decision, buffer);
    if (const Written written = forward(state, view, buffer)) return *written;
  }
}

std::size_t QueryHandler::stop_working(QueryState& state, Buffer buffer) {
  counters_.overworked.add();
  return fail(state, wire::Ede::Other, "too many aliases and search domains for one query", buffer);
}

std::size_t QueryHandler::write_decision(QueryState& state, const View& view,
                                         const Decision& decision, Buffer buffer) {
  const bool failure = is_failure(decision.verdict);
  if (decision.verdict == Verdict::Overworked) counters_.overworked.add();
  state.source = source_of(decision);
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_authoritative(state.authoritative && !failure);
  AnswerContext context = context_of(state, view, writer);
  write_resolution(decision, state.chain, context);
  if (view.snapshot().sources.from_state_dir && state.source == AnswerSource::Registry) [[unlikely]]
    writer.set_extended_error(wire::Ede::StaleAnswer, kFromEarlierRun);
  if (state.walk.stopped_by) [[unlikely]]
    writer.set_extended_error(*state.walk.stopped_by, kWalkStopped);
  const std::size_t size = writer.finish();
  if (kernel_) [[unlikely]]
    offer_to_kernel(state, view, decision, buffer.first(size));
  return count_reply(state, buffer, rcode_of(decision.verdict), size);
}

void QueryHandler::feed_kernel(std::shared_ptr<const KernelFeed> feed) {
  limiter_.share(feed ? std::optional(feed->accounts()) : std::nullopt);
  kernel_ = feed ? std::make_unique<KernelOffers>(std::move(feed)) : nullptr;
}

// Not what a query gets that has waited: its snapshot is newer than the moment of the batch.
void QueryHandler::offer_to_kernel(const QueryState& state, const View& view,
                                   const Decision& decision, std::span<const std::uint8_t> reply) {
  if (held_number_ != 0 || !kernel_->is_open(batch_started_ns_)) return;
  auto answer = kernel_answer(state, view, decision, reads_, reply);
  if (!answer) return;
  if (limiter_.is_on()) answer->limited_as = limiter_.hash_of_network(answer->client_address);
  kernel_->offer(*answer, batch_started_ns_);
}

// --- search walks --------------------------------------------------------------------------------

void QueryHandler::begin_walk(QueryState& state, const View& view, const Decision& decision) {
  if (view.settings().search_shortcut != registry::SearchShortcut::All) return;
  if (!is_unknown_name(decision) || !state.chain.empty() || state.walk.is_active() ||
      state.walk.is_over() || state.query->has_odd_octets || state.query->qtype == Type::Any)
    return;
  const std::string_view rest = walked_name(view, state.query->qname());
  if (!rest.empty()) state.walk.begin(rest, view.client().search);
}

void QueryHandler::walk_on(QueryState& state, const View& view) {
  state.chain.clear();
  state.without_ipv6 = nullptr;
  const std::string_view name = state.walk.next();
  if (name.empty()) return;
  state.authoritative = true;
  state.chain.add({}, name, negative_ttl(view));
}

// --- refusals ------------------------------------------------------------------------------------

MessageWriter QueryHandler::begin_reply(const QueryState& state, Buffer buffer) const {
  MessageWriter writer(buffer, reply_limit(*state.query, state.is_tcp(), buffer.size()),
                       *state.query);
  if (is_kept_short(state)) return writer;
  const ReplyOptions wanted = options(state);
  if (!wanted.empty()) wanted.apply(writer);
  return writer;
}

// A stranger's address may be forged: over UDP it gets nothing that would make its reply larger
// than its query, so neither options nor extended errors.
bool QueryHandler::is_kept_short(const QueryState& state) {
  return state.is_stranger && !state.is_tcp();
}

std::size_t QueryHandler::write_rcode(QueryState& state, Rcode rcode, Buffer buffer) {
  state.source = AnswerSource::Protocol;
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_rcode(rcode);
  return count_reply(state, buffer, rcode, writer.finish());
}

std::size_t QueryHandler::refuse(QueryState& state, std::string_view why, Buffer buffer) {
  state.source = AnswerSource::Refused;
  note_refused(state, TopQueries::Refusal::Refused);
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_rcode(Rcode::Refused);
  if (!is_kept_short(state)) writer.set_extended_error(wire::Ede::Prohibited, why);
  return count_reply(state, buffer, Rcode::Refused, writer.finish());
}

std::size_t QueryHandler::refuse_unknown(QueryState& state, Buffer buffer) {
  state.is_stranger = true;
  return refuse(state, "no Pod or workload has this address", buffer);
}

std::size_t QueryHandler::reject_type(QueryState& state, Buffer buffer) {
  state.source = AnswerSource::Protocol;
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_rcode(Rcode::FormErr);
  writer.set_extended_error(wire::Ede::InvalidQueryType, "no record has this type");
  return count_reply(state, buffer, Rcode::FormErr, writer.finish());
}

std::size_t QueryHandler::fail(QueryState& state, wire::Ede code, std::string_view why,
                               Buffer buffer) {
  state.source = AnswerSource::Failed;
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_rcode(Rcode::ServFail);
  writer.set_extended_error(code, why);
  return count_reply(state, buffer, Rcode::ServFail, writer.finish());
}

// --- facts about a query -------------------------------------------------------------------------

const registry::Client* QueryHandler::find_client(const Snapshot& snapshot,
                                                  const ReplyTo& reply_to) const {
  if (parts_.asker) [[unlikely]]
    return parts_.asker(reply_to).client;
  return snapshot.client_at(reply_to.client.address);
}

void QueryHandler::limit_view(View& view, const ReplyTo& reply_to) const {
  view.limit_work(kMaxWork);
  if (parts_.asker) [[unlikely]]
    view.leave_out_users_of(parts_.asker(reply_to).endpoint_name);
}

Asked QueryHandler::asked(const QueryState& state, std::span<char> odd_name) const {
  Asked asked = asked_of(*state.query, odd_name);
  asked.server_addresses = server_addresses(*state.reply_to);
  asked.local = settings_.local.get();
  asked.served = settings_.served.get();
  asked.registry_only = settings_.registry_only.get();
  asked.is_walking = state.walk.is_active();
  if (settings_.dns64) asked.dns64 = &*settings_.dns64;
  asked.is_absolute = parts_.asker != nullptr;
  return asked;
}

Asked QueryHandler::asked_last(const QueryState& state, std::span<char> odd_name) const {
  Asked last = asked(state, odd_name);
  if (!state.chain.empty()) point_at(state.chain, last);
  return last;
}

AnswerContext QueryHandler::context_of(const QueryState& state, const View& view,
                                       MessageWriter& writer) {
  return {.view = view,
          .rotation = rotation_,
          .writer = writer,
          .type = state.query->qtype,
          .name = state.query->qname(),
          .question_size = state.query->qname_size,
          .now = state.chain.empty() ? Millis{0} : parts_.clock.now(),
          .server_addresses = server_addresses(*state.reply_to)};
}

// The bound addresses; with a wildcard listener, the destination address of the query.
std::span<const IpAddress> QueryHandler::server_addresses(const ReplyTo& reply_to) const {
  if (!settings_.server_addresses.empty()) return settings_.server_addresses;
  const IpAddress& local = reply_to.client.local;
  if (local.is_loopback() || local.is_unspecified()) return {};
  return {&local, 1};
}

ReplyOptions QueryHandler::options(const QueryState& state) const {
  ReplyOptions options;
  const QueryMessage& query = *state.query;
  if (!query.has_edns) return options;
  if (query.edns.nsid) options.nsid = settings_.nsid;
  if (query.edns.keepalive && state.is_tcp() && parts_.tcp_idle_timeout) {
    const auto units = parts_.tcp_idle_timeout().count() / 100;
    options.keepalive = static_cast<std::uint16_t>(std::clamp<std::int64_t>(units, 0, 0xffff));
  }
  // A reload may have taken the secrets away from a query that waited.
  if (state.cookie && settings_.cookie_secrets) [[unlikely]]
    options.cookie =
        make_cookie(cookie_of(query).first<kClientCookieOctets>(), state.reply_to->client.address,
                    settings_.cookie_secrets->current, parts_.clock.unix_time());
  return options;
}

DescribeForwarding QueryHandler::describe_forwarding() const {
  return [this](std::string_view wire_name, wire::Type type) {
    return parts_.upstream.describe(wire_name, type, parts_.clock.now());
  };
}

}  // namespace meshdns::dnsd
