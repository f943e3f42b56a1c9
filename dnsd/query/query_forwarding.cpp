// SPDX-License-Identifier: Apache-2.0
// The part of QueryHandler that deals with what the registry leaves to an upstream.
#include <algorithm>
#include <array>

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/dns64.hpp"
#include "dnsd/answer/forwarded_answer.hpp"
#include "dnsd/answer/known_names.hpp"
#include "dnsd/answer/local_resolution.hpp"
#include "dnsd/query/query_handler.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

using registry::View;
using wire::MessageWriter;
using wire::Rcode;
using wire::Type;

constexpr std::uint32_t kMaxPackets = Flight::kMaxPackets;  // for all names of a query
// Limit of questions sent upstream for the names of a search walk.
constexpr std::uint32_t kMaxWalkQuestions = 8;
// Aliases in replies that are looked at for one query, each of which costs half a microsecond.
constexpr std::size_t kMaxRepliedAliases = 512;

constexpr std::string_view kKnownName =
    "an upstream's NXDOMAIN or alias does not hold for a name that is known here";

// The way on from an upstream's chain of aliases.
enum class Continuation : std::uint8_t {
  None,  // the message is the whole answer
  Into,  // a name that is ours to answer
  On,    // a name that is to be asked for: of other servers, or since the message ends there
  Loop,  // the chain has no end, or goes through a name that is none
};

// A link of a message's chain, and what follows from it.
struct Exit {
  Continuation how = Continuation::None;
  std::size_t record = 0;  // that of the alias
  std::string target;
};

Exit find_exit(const registry::View& view, Asked asked, const Upstreams& upstreams,
               const CachedMessage& message) {
  asked.is_target = true;
  asked.has_odd_labels = false;
  const bool is_denied = message.rcode() == wire::Rcode::NxDomain;
  Exit exit;
  std::string host;
  std::size_t seen = 0;
  message.for_each_alias([&](const CachedMessage::Alias& alias) {
    const bool is_last = ++seen == message.alias_count();
    if (!wire::host_from_wire(alias.target, host)) return true;
    asked.name = host;
    // A name error is one of the chain's last name.
    if (decide(view, asked).verdict != Verdict::Forward ||
        (is_last && is_denied && is_known_name(view, asked)))
      exit.how = Continuation::Into;
    else if (upstreams.has_other_servers(message.name(), alias.target,
                                         is_last && message.kind() == MessageKind::Negative) ||
             (is_last && message.leads_on()))
      exit.how = Continuation::On;
    else
      return true;
    exit.record = alias.record;
    exit.target = host;
    return false;
  });
  return exit;
}

// RFC 1034, section 4.3.2, step 3a: the query goes on with the name that an alias leads to.  This
// holds for the first one that the registry answers for this client, or that a zone of
// upstream.zones or of a link has other servers for; and for the last one, where the message has an
// alias alone, or denies a name that other servers know.  Then the message's aliases up to there
// are added to `chain`.
Continuation continue_chain(const registry::View& view, const Asked& asked,
                            const Upstreams& upstreams, const CachedMessage& message,
                            Freshness freshness, AliasChain& chain) {
  const Exit exit = find_exit(view, asked, upstreams, message);
  if (exit.how == Continuation::None) return Continuation::None;
  // The alias's signatures belong to it.
  std::size_t records = exit.record + 1;
  while (records < message.answer_count() && message.record_type(records) == Type::Rrsig) ++records;
  const RepliedAliases aliases{MessageRef(&message), records, freshness};
  return chain.add(aliases, exit.target) ? exit.how : Continuation::Loop;
}

}  // namespace

QueryHandler::Written QueryHandler::forward(QueryState& state, const View& view, Buffer buffer) {
  const bool plain = state.chain.empty();
  // All names of the walk are missing, too: what the upstream said of the first.
  if (plain && state.walk.is_over() && state.walk.denial)
    return relay(state, *state.walk.denial, Freshness::Fresh, buffer);
  // RFC 8482: over UDP a large answer to a small question serves only whoever forges addresses.
  if (plain && state.query->qtype == Type::Any && !state.is_tcp())
    return answer_any_minimally(state, view, buffer);
  const bool translates = settings_.dns64 && wants_translation(*state.query);
  if (plain && !state.walk.is_active() && !translates) return forward_question(state, view, buffer);

  const CacheKey key(request_of(state).question,
                     state.query->has_edns && state.query->edns.dnssec_ok,
                     state.query->checking_disabled);
  const Upstreams::Known known = parts_.upstream.find(key, parts_.clock.now());
  if (!known.message) return ask(state, buffer);
  state.source = AnswerSource::Cache;
  return use(state, view, *known.message, known.freshness, buffer);
}

// The usual case: the question itself, from the cache without a copy.
QueryHandler::Written QueryHandler::forward_question(QueryState& state, const View& view,
                                                     Buffer buffer) {
  const Cache::Hit hit = parts_.upstream.answer(*state.query, frame_of(state, buffer),
                                                parts_.clock.now(), next_rotation());
  if (hit.refresh_due) parts_.upstream.refresh(request_of(state));
  state.source = hit.freshness == Freshness::Stale ? AnswerSource::Stale : AnswerSource::Cache;
  if (hit.size != 0 && hit.rcode == Rcode::NxDomain && knows_name(state, view))
    return deny_type(state, view, buffer);
  if (hit.size != 0) return count_reply(state, buffer, hit.rcode, hit.size);
  if (!hit.message) return ask(state, buffer);
  return use(state, view, *hit.message, hit.freshness, buffer);
}

std::size_t QueryHandler::answer_any_minimally(QueryState& state, const View& view, Buffer buffer) {
  state.source = AnswerSource::Refused;
  MessageWriter writer = begin_reply(state, buffer);
  AnswerContext context{
      .view = view, .rotation = rotation_, .writer = writer, .type = Type::Any, .name = {}};
  write_answer({.verdict = Verdict::Minimal}, context);
  return count_reply(state, buffer, Rcode::NoError, writer.finish());
}

QueryHandler::Written QueryHandler::use(QueryState& state, const View& view,
                                        const CachedMessage& message, Freshness freshness,
                                        Buffer buffer) {
  if (freshness == Freshness::Stale) state.source = AnswerSource::Stale;
  // A reload may have switched DNS64 off while the addresses of IPv4 were asked for.
  if (state.without_ipv6 && (message.kind() != MessageKind::Positive || !settings_.dns64))
    return relay_untranslated(state, buffer);
  if (asks_for_ipv4(state, message)) return {};
  if (message.kind() == MessageKind::Failure) {
    if (stop_walk(state, message.has_ede() ? message.ede() : wire::Ede::Other)) return {};
    return relay(state, message, freshness, buffer);
  }
  if (message.has_alias()) return use_alias(state, view, message, freshness, buffer);
  if (message.rcode() != Rcode::NxDomain) return relay(state, message, freshness, buffer);
  if (knows_name(state, view)) return deny_type(state, view, buffer);
  return use_denial(state, view, message, buffer);
}

QueryHandler::Written QueryHandler::use_alias(QueryState& state, const View& view,
                                              const CachedMessage& message, Freshness freshness,
                                              Buffer buffer) {
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  Asked asked = asked_last(state, odd_name);
  ++state.decisions;
  state.replied_aliases += message.alias_count();
  if (state.replied_aliases > kMaxRepliedAliases) return stop_working(state, buffer);
  // A cache in front of us would follow the alias for addresses, too, and so lose ours.
  if (has_own_addresses(view, asked)) return deny_type(state, view, buffer);
  const Continuation next =
      continue_chain(view, asked, parts_.upstream, message, freshness, state.chain);
  if (next == Continuation::Loop)
    return fail(state, wire::Ede::Other, "the chain of aliases is a loop or too long", buffer);
  if (next != Continuation::None) {
    state.without_ipv6 = nullptr;
    return {};
  }
  if (message.rcode() == Rcode::NxDomain) return use_denial(state, view, message, buffer);
  return relay(state, message, freshness, buffer);
}

// The upstream's name error, which is never stale: the next name of a walk is tried.
QueryHandler::Written QueryHandler::use_denial(QueryState& state, const View& view,
                                               const CachedMessage& message, Buffer buffer) {
  if (!state.walk.is_active()) return relay(state, message, Freshness::Fresh, buffer);
  if (state.chain.empty()) state.walk.denial = MessageRef(&message);
  walk_on(state, view);
  return {};
}

// A step of a walk that nobody can answer proves nothing.  The name that was asked is missing all
// the same, and the client goes on with its list by itself.
bool QueryHandler::stop_walk(QueryState& state, wire::Ede why) {
  if (!state.walk.is_active() || state.chain.empty()) return false;
  state.walk.stop(why);
  state.chain.clear();
  state.without_ipv6 = nullptr;
  return true;
}

bool QueryHandler::knows_name(const QueryState& state, const View& view) const {
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  const Asked asked = asked_last(state, odd_name);
  return !asked.name.empty() && is_known_name(view, asked);
}

// The name has no records of this type, whatever the upstream says of the name itself.
QueryHandler::Written QueryHandler::deny_type(QueryState& state, const View& view, Buffer buffer) {
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  const Asked last = asked_last(state, odd_name);
  // The registry may have learnt of the name while the upstream was asked.
  if (decide(view, last).verdict != Verdict::Forward) {
    state.without_ipv6 = nullptr;
    return {};
  }
  const Decision decision{.verdict = Verdict::NoData, .zone = zone_of(view, last.name)};
  MessageWriter writer = begin_reply(state, buffer);
  writer.set_authoritative(true);
  AnswerContext context = context_of(state, view, writer);
  write_resolution(decision, state.chain, context);
  writer.set_extended_error(wire::Ede::Synthesized, kKnownName);
  return count_reply(state, buffer, Rcode::NoError, writer.finish());
}

// DNS64: true when addresses of IPv4 are asked for in place of this answer.
bool QueryHandler::asks_for_ipv4(QueryState& state, const CachedMessage& message) const {
  if (!settings_.dns64 || state.without_ipv6 || !wants_translation(*state.query) ||
      !lacks_ipv6(message))
    return false;
  state.without_ipv6 = MessageRef(&message);
  return true;
}

// There is no IPv4 either: what was said of IPv6 holds.
std::size_t QueryHandler::relay_untranslated(QueryState& state, Buffer buffer) {
  const MessageRef denial = std::exchange(state.without_ipv6, nullptr);
  return relay(state, *denial, Freshness::Fresh, buffer);
}

std::size_t QueryHandler::relay(QueryState& state, const CachedMessage& message,
                                Freshness freshness, Buffer buffer) {
  if (!state.chain.empty() || state.without_ipv6) return compose(state, message, freshness, buffer);
  const std::size_t size = message.write_reply(*state.query, frame_of(state, buffer),
                                               parts_.clock.now(), next_rotation(), freshness);
  return count_reply(state, buffer, message.rcode(), size);
}

// Our aliases, then the upstream's word on where they lead.
std::size_t QueryHandler::compose(QueryState& state, const CachedMessage& message,
                                  Freshness freshness, Buffer buffer) {
  MessageWriter writer = begin_reply(state, buffer);
  if (message.kind() == MessageKind::Failure) {
    state.source = AnswerSource::Failed;
    writer.set_rcode(Rcode::ServFail);
    write_extended_error(message, freshness, writer);
    return count_reply(state, buffer, Rcode::ServFail, writer.finish());
  }
  writer.set_authoritative(state.authoritative);
  const Millis now = parts_.clock.now();
  ForwardedPart part{.message = message,
                     .freshness = freshness,
                     .now = now,
                     .rotation = next_rotation(),
                     .dns64 = nullptr,
                     .max_translated_ttl = 0};
  if (state.without_ipv6) {
    counters_.translated.add();
    part.dns64 = &*settings_.dns64;
    part.max_translated_ttl = translated_ttl(*state.without_ipv6, now);
  }
  MessageWriter::NameRef owner = MessageWriter::kQuestionName;
  if (state.chain.write(writer, now, owner))
    write_forwarded(part, writer, owner);
  else
    writer.set_truncated();
  return count_reply(state, buffer, message.rcode(), writer.finish());
}

QueryHandler::Written QueryHandler::ask(QueryState& state, Buffer buffer) {
  const Millis now = parts_.clock.now();
  if (state.give_up_at == 0)
    state.give_up_at = now + 2 * static_cast<Millis>(settings_.timeout.count());
  const bool is_enough = state.packets >= kMaxPackets || now > state.give_up_at ||
                         (state.walk.is_active() && state.questions >= kMaxWalkQuestions);
  if (is_enough && stop_walk(state, wire::Ede::NoReachableAuthority)) return {};
  if (is_enough)
    return fail(state, wire::Ede::NoReachableAuthority, "too many questions for one query", buffer);
  std::uint64_t number = 0;
  HeldQuery* const held = hold(state, number);
  if (held == nullptr) {
    counters_.rejected_waiting.add();
    note_refused(state, TopQueries::Refusal::Limited);
    return fail(state, wire::Ede::Other, "too many queries wait for an upstream", buffer);
  }
  ++held->state.questions;
  held->awaits_snapshot = false;
  parts_.upstream.resolve(request_of(held->state),
                          [this, number](const Outcome& outcome) { on_outcome(number, outcome); });
  return kReplyLater;
}

ForwardRequest QueryHandler::request_of(const QueryState& state) const {
  const wire::QueryMessage& query = *state.query;
  ForwardRequest request;
  request.question = question_of(query);
  if (!state.chain.empty()) request.question.name = wire::wire_from_host(state.chain.last());
  if (state.without_ipv6) request.question.type = Type::A;
  request.dnssec_ok = query.has_edns && query.edns.dnssec_ok;
  request.checking_disabled = query.checking_disabled;
  request.recursion_desired = query.recursion_desired;
  request.client = state.reply_to->client.address;
  request.max_packets = kMaxPackets - std::min(state.packets, kMaxPackets);
  return request;
}

ReplyFrame QueryHandler::frame_of(const QueryState& state, Buffer buffer) {
  const ReplyOptions wanted = options(state);
  return {.buffer = buffer,
          .limit = reply_limit(*state.query, state.is_tcp(), buffer.size()),
          .options = wanted.empty() ? std::span<const std::uint8_t>{} : wanted.encode(options_)};
}

}  // namespace meshdns::dnsd
