// SPDX-License-Identifier: Apache-2.0
// The part of QueryHandler that deals with queries that are answered later, and with counting.
#include <algorithm>

#include "dnsd/query/query_handler.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

using registry::View;
using wire::Rcode;

constexpr std::uint8_t kTruncatedBit = 0x02;
constexpr std::uint8_t kAuthoritativeBit = 0x04;
constexpr std::size_t kAnswerCountAt = 6;  // in the header

}  // namespace

HeldQuery* QueryHandler::hold(QueryState& state, std::uint64_t& number) {
  if (held_number_ != 0) {
    number = held_number_;
    return held_.find(number);
  }
  HeldQuery* const held = held_.add(state, number);
  counters_.waiting.set(held_.size());
  return held;
}

std::size_t QueryHandler::hold_for_snapshot(QueryState& state, Buffer buffer) {
  std::uint64_t number = 0;
  HeldQuery* const held = hold(state, number);
  if (held == nullptr) {
    counters_.rejected_waiting.add();
    note_refused(state, TopQueries::Refusal::Limited);
    return fail(state, wire::Ede::Other, "too many queries wait for addresses", buffer);
  }
  if (held->give_up_at == 0) {
    held->give_up_at = parts_.clock.now() + static_cast<Millis>(settings_.timeout.count());
    held->state.chain.clear();
  }
  held->awaits_snapshot = true;
  arm_timer();
  return kReplyLater;
}

template <typename Answer>
void QueryHandler::continue_held(std::uint64_t number, Answer&& answer) {
  HeldQuery* const held = held_.find(number);
  if (held == nullptr || stopped_) return;
  held_number_ = number;
  client_ = nullptr;
  late_buffer_.resize(held->state.is_tcp() ? kTcpBufferSize : kUdpBufferSize);
  const std::size_t size = answer(*held, Buffer(late_buffer_));
  held_number_ = 0;
  if (size == kReplyLater) return;
  const std::uint64_t now = parts_.clock.precise_now();
  count_duration(now - held->state.started_ns, 1);
  if (held->state.questions > 0)
    top_.note_forwarded(held->query.qname(), now - held->state.started_ns, now);
  if (size == kNoReply)
    parts_.replies.drop(held->reply_to);
  else
    parts_.replies.send(held->reply_to, Buffer(late_buffer_).first(size));
  held_.remove(number);
  counters_.waiting.set(held_.size());
}

void QueryHandler::on_outcome(std::uint64_t number, const Outcome& outcome) {
  if (stopped_) return;
  continue_held(number, [&](HeldQuery& held, Buffer buffer) {
    held.state.source = AnswerSource::Forward;
    held.state.upstream = outcome.upstream;
    held.state.packets += std::max<std::uint32_t>(outcome.packets, 1);
    // The registry may have changed meanwhile: what it says now counts.
    const registry::Snapshot& snapshot = reader_.current();
    const registry::Client* const client = find_client(snapshot, held.reply_to);
    if (client == nullptr) return refuse_unknown(held.state, buffer);
    client_ = client;
    View view(snapshot, *client);
    limit_view(view, held.reply_to);
    const Written written = use(held.state, view, *outcome.message, outcome.freshness, buffer);
    return written ? *written : resolve(held.state, view, buffer);
  });
}

void QueryHandler::decide_again(std::uint64_t number) {
  continue_held(number, [&](HeldQuery& held, Buffer buffer) {
    held.state.chain.clear();
    held.state.walk = {};
    held.state.authoritative = false;
    held.state.decisions = 0;
    held.state.without_ipv6 = nullptr;
    return answer_question(held.state, reader_.current(), buffer);
  });
}

void QueryHandler::on_snapshot() {
  if (stopped_) return;
  reader_.current();  // a handler that nobody asks must not keep the one before
  for (const std::uint64_t number : held_.awaiting_snapshot(HeldQueries::kAll))
    decide_again(number);
  arm_timer();
}

void QueryHandler::expire() {
  for (const std::uint64_t number : held_.awaiting_snapshot(parts_.clock.now()))
    continue_held(number, [&](HeldQuery& held, Buffer buffer) {
      client_ = find_client(reader_.current(), held.reply_to);
      return fail(held.state, wire::Ede::NoReachableAuthority,
                  "the names of the host's endpoints could not be resolved in time", buffer);
    });
  arm_timer();
}

void QueryHandler::arm_timer() {
  const Millis deadline = held_.next_deadline();
  if (deadline == HeldQueries::kAll)
    parts_.clock.cancel();
  else
    parts_.clock.call_at(deadline, [this] { expire(); });
}

void QueryHandler::on_stop() {
  stopped_ = true;
  held_.clear();
  parts_.upstream.close();
  parts_.clock.close();
}

// --- counting ------------------------------------------------------------------------------------

void QueryHandler::count_request(const QueryState& state) {
  const Peer& client = state.reply_to->client;
  counters_
      .requests[client.tcp][client.address.is_v6()][QueryCounters::type_slot(state.query->qtype)]
      .add();
  if (state.query->has_edns && state.query->edns.dnssec_ok) counters_.do_requests.add();
}

std::size_t QueryHandler::count_reply(QueryState& state, Buffer reply, Rcode rcode,
                                      std::size_t size) {
  counters_.responses[QueryCounters::rcode_slot(rcode)][static_cast<std::size_t>(state.source)]
      .add();
  if ((reply[2] & kTruncatedBit) != 0) counters_.truncated.add();
  if (rcode != Rcode::NoError && !state.query->question.empty()) [[unlikely]]
    failing_names_.note(state.query->qname(), rcode);
  if (state.outside_size != 0) [[unlikely]]
    note_outside_reply(state, rcode, wire::load_u16(reply.data() + kAnswerCountAt) != 0);
  if (parts_.log != nullptr) [[unlikely]]
    log(state, reply, rcode, size);
  return size;
}

void QueryHandler::count_duration(std::uint64_t nanoseconds, std::uint64_t queries) {
  counters_.duration[QueryCounters::duration_bucket(nanoseconds)].add(queries);
  counters_.duration_sum_ns.add(nanoseconds * queries);
}

void QueryHandler::note_query(const QueryState& state, wire::ParseOutcome outcome) {
  if (outcome == wire::ParseOutcome::Drop) return top_.put_off();
  const IpAddress& client = state.reply_to->client.address;
  if (state.query->question.empty()) return top_.note_nameless_query(client, batch_started_ns_);
  const bool has_namespace = client_ != nullptr && client_->ns;
  const std::string_view ns = has_namespace ? client_->ns->text() : std::string_view();
  top_.note_query(state.query->qname(), client, ns, batch_started_ns_);
}

void QueryHandler::note_refused(const QueryState& state, TopQueries::Refusal refusal) {
  top_.note_refused(state.reply_to->client.address, refusal, batch_started_ns_);
}

void QueryHandler::note_outside(const QueryState& state, const Decision& decision) {
  const bool is_refused = decision.registry_only == RegistryOnlyEffect::Refused;
  (is_refused ? counters_.outside_refused : counters_.outside_audited).add();
  const std::string_view name = state.chain.empty() ? state.query->qname() : state.chain.last();
  outside_names_.note(name, is_refused ? rcode_of(decision.verdict) : Rcode::NoError);
}

void QueryHandler::log(const QueryState& state, Buffer reply, Rcode rcode, std::size_t size) const {
  const wire::QueryMessage& query = *state.query;
  // The reply repeats the question as it was asked.
  const auto* const question = reinterpret_cast<const char*>(reply.data() + wire::kHeaderSize);
  parts_.log->on_answer(
      {.client = state.reply_to->client,
       .id = wire::load_u16(reply.data()),
       .identity = client_ == nullptr ? std::string_view() : client_->identity.description,
       .qname = {question, query.question.empty() ? 0 : query.qname_size},
       .qtype = query.qtype,
       .qclass = query.qclass,
       .recursion_desired = query.recursion_desired,
       .has_edns = query.has_edns,
       .dnssec_ok = query.has_edns && query.edns.dnssec_ok,
       .udp_payload = query.has_edns ? query.edns.udp_payload : std::uint16_t{0},
       .query_size = state.query_size,
       .rcode = rcode,
       .authoritative = (reply[2] & kAuthoritativeBit) != 0,
       .truncated = (reply[2] & kTruncatedBit) != 0,
       .empty = wire::load_u16(reply.data() + kAnswerCountAt) == 0,
       .reply_size = size,
       .source = state.source,
       .upstream = state.upstream,
       .duration_ns = parts_.clock.precise_now() - state.started_ns,
       .reply = reply.first(size)});
}

}  // namespace meshdns::dnsd
