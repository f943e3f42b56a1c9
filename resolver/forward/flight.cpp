// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/flight.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace meshdns::dnsd {
namespace {

// Waits grow from pass to pass up to a limit.  With a loss of 30 % of all packets, one question
// in 1,000 fails with a single upstream, and one in 50,000 with two.
constexpr std::array<Millis, 3> kPatienceFactors = {1, 2, 3};
constexpr Millis kLongestPatience = 600;
// An upstream that has become slow gets no storm of retries.
constexpr std::size_t kMaxTriesPerSecond = 3;  // of one question to one upstream
constexpr Millis kSecond = 1'000;
// Time that a reply over TCP may take before another upstream is asked.
constexpr Millis kStreamPatience = 1'000;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

bool is_down(const std::shared_ptr<Upstream>& upstream) {
  return upstream->state().health() == Health::Down;
}

}  // namespace

Flight::Flight(Reactor& reactor, UpstreamGroups& groups, UpstreamQuestion question, FlightPlan plan,
               const AnswerRules& rules, OnOver on_over)
    : ExchangeListener(reactor.retired()),
      reactor_(reactor),
      groups_(groups),
      question_(std::move(question)),
      plan_(std::move(plan)),
      rules_(rules),
      on_over_(std::move(on_over)),
      timer_(reactor, [this] { on_time(); }),
      settled_(plan_.upstreams.size(), false) {
  failure_.unreachable = true;
}

Flight::~Flight() = default;

void Flight::on_retire() {
  timer_.stop();
  for (Try& attempt : tries_) attempt.exchange.reset();
}

void Flight::start() {
  starting_ = true;
  go_on();
  starting_ = false;
}

CacheKey Flight::key() const {
  return {question_.question, question_.dnssec_ok, question_.checking_disabled};
}

// Asks the upstream servers whose turn it is, or ends the flight.
void Flight::go_on() {
  if (is_anyone_waiting()) return arm();
  bool launched = launch_one();
  while (launched && plan_.all_at_once && next_ < plan_.upstreams.size()) launched = launch_one();
  if (!is_anyone_waiting() && !is_worth_waiting()) return finish_with_failure();
  arm();
}

bool Flight::launch_one() {
  const std::size_t tries = tries_.size();
  while (may_send()) {
    const std::size_t upstream = next_upstream();
    if (upstream == kNone) return false;
    if (launch(upstream)) return true;
    // A shortage that every upstream has met would meet a second try as well.
    if (is_short_ && tries_.size() >= tries + plan_.upstreams.size()) return false;
  }
  return false;
}

// The next in the plan that is to be asked; all are in the first pass.
std::size_t Flight::next_upstream() {
  while (pass_ < kMaxPackets) {
    for (; next_ < plan_.upstreams.size(); ++next_) {
      if (pass_ > 0 && !is_hopeful(next_)) continue;
      return next_++;
    }
    next_ = 0;
    ++pass_;
  }
  return kNone;
}

bool Flight::launch(std::size_t upstream) {
  Upstream& asked = *plan_.upstreams[upstream];
  Try& attempt = tries_.emplace_back();
  attempt.upstream = upstream;
  attempt.sent_at = reactor_.now();
  attempt.exchange =
      make_owned<Exchange>(plan_.upstreams[upstream], question_, Weak<ExchangeListener>(*this));
  const auto sent = attempt.exchange->start();
  if (!sent) {
    if (sent.error().is_shortage)
      note_shortage(sent.error().message);
    else
      note_fault(asked, ExchangeFault::Unreachable, sent.error().message);
    // An earlier try may still be answered.
    const bool was_asked = sent.error().is_shortage && is_asked(upstream, attempt);
    settle(attempt);
    settled_[upstream] = !was_asked;
    return false;
  }
  const Millis factor = kPatienceFactors[std::min<std::size_t>(pass_, kPatienceFactors.size() - 1)];
  const Millis retry_after = asked.state().retry_after();
  Millis patience = std::max(retry_after, std::min(retry_after * factor, kLongestPatience));
  // A connection may have to be made first, with round trips of its own.
  if (asked.server().transport == UpstreamTransport::Tls)
    patience = std::max(patience, kStreamPatience);
  attempt.patience = std::max(attempt.sent_at + patience, earliest_retry());
  return true;
}

// All upstreams are asked in turn, so that what holds for the flight holds for each.
Millis Flight::earliest_retry() const {
  std::size_t asked = 0;
  for (std::size_t i = 0; i < settled_.size(); ++i)
    if (is_hopeful(i)) ++asked;
  const std::size_t a_second = std::max<std::size_t>(asked, 1) * kMaxTriesPerSecond;
  return tries_.size() < a_second ? 0 : tries_[tries_.size() - a_second].sent_at + kSecond;
}

Flight::Try& Flight::try_of(const Exchange& exchange) {
  const auto found = std::ranges::find_if(
      tries_, [&](const Try& attempt) { return attempt.exchange.get() == &exchange; });
  assert(found != tries_.end());
  return *found;
}

void Flight::settle(Try& finished) {
  finished.state = TryState::Over;
  settled_[finished.upstream] = true;
  packets_before_ += finished.exchange->packets();
  finished.exchange.reset();
}

// Returns whether a try other than `attempt` waits for the upstream.
bool Flight::is_asked(std::size_t upstream, const Try& attempt) const {
  return std::ranges::any_of(tries_, [&](const Try& other) {
    return &other != &attempt && other.upstream == upstream && other.state != TryState::Over;
  });
}

std::uint32_t Flight::packets() const {
  std::uint32_t sum = packets_before_;
  for (const Try& attempt : tries_)
    if (attempt.exchange) sum += attempt.exchange->packets();
  return sum;
}

bool Flight::is_anyone_waiting() const {
  return std::ranges::any_of(tries_,
                             [](const Try& attempt) { return attempt.state == TryState::Waiting; });
}

// Returns whether the upstream may still answer.  An upstream that is down may be back within the
// client's time: it is asked as long as there is neither another one nor an rcode to pass on.
bool Flight::is_hopeful(std::size_t upstream) const {
  if (settled_[upstream]) return false;
  if (!is_down(plan_.upstreams[upstream])) return true;
  for (std::size_t i = 0; i < settled_.size(); ++i)
    if (!settled_[i] && !is_down(plan_.upstreams[i])) return false;
  return !has_rcode_;
}

// Returns whether a try that is late may still bring something better than what there is.
bool Flight::is_worth_waiting() const {
  return std::ranges::any_of(tries_, [&](const Try& attempt) {
    return attempt.state == TryState::TimedOut && is_hopeful(attempt.upstream);
  });
}

void Flight::arm() {
  Millis next = plan_.deadline;
  for (const Try& attempt : tries_) {
    if (attempt.state == TryState::Waiting) next = std::min(next, attempt.patience);
  }
  timer_.start(next);
}

void Flight::on_time() {
  if (outcome_) return finish(std::move(outcome_), outcome_from_);
  const Millis now = reactor_.now();
  bool late = false;
  for (Try& attempt : tries_) {
    if (attempt.state != TryState::Waiting || now < attempt.patience) continue;
    note_late(attempt);
    if (is_retired()) return;
    late = true;
  }
  if (now >= plan_.deadline) return finish_with_failure();
  if (late) return go_on();
  if (!is_anyone_waiting() && !is_worth_waiting()) return finish_with_failure();
  arm();
}

void Flight::note_late(Try& late) {
  late.state = TryState::TimedOut;
  late.exchange->note_timeout();
  if (!late.exchange->was_sent()) return note_shortage("the system's send buffers are full");
  plan_.upstreams[late.upstream]->state().note_timeout(late.exchange->sent_at());
  groups_.note_doubt();
}

void Flight::on_progress(Exchange& exchange) {
  Try& attempt = try_of(exchange);
  attempt.state = TryState::Waiting;
  attempt.patience =
      reactor_.now() + std::max(exchange.upstream().state().retry_after(), kStreamPatience);
  arm();
}

void Flight::on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) {
  Try& attempt = try_of(exchange);
  if (fault == ExchangeFault::Shortage) {
    note_shortage(what);
  } else if (exchange.has_replied() || fault == ExchangeFault::Limit) {
    // The upstream works over UDP: only this question's way over TCP has failed.
    exchange.upstream().state().note_error(what);
    failure_.ede = wire::Ede::NetworkError;
    failure_.text = what;
    failure_.unreachable = false;
    failure_from_ = exchange.upstream().name();
  } else {
    note_fault(exchange.upstream(), fault, what);
    groups_.note_doubt();
  }
  if (is_retired()) return;
  // A shortage of our own says nothing of an earlier try, which may still be answered.
  const bool was_asked = fault == ExchangeFault::Shortage && is_asked(attempt.upstream, attempt);
  settle(attempt);
  if (!was_asked) return go_on();
  settled_[attempt.upstream] = false;
  // An immediate second try would meet the same shortage.
  if (next_ < plan_.upstreams.size()) return go_on();
  arm();
}

void Flight::note_fault(Upstream& upstream, ExchangeFault fault, const std::string& what) {
  if (fault == ExchangeFault::Unreachable) {
    upstream.state().note_unreachable(what);
    // The reply of another server explains more.
    if (!failure_.unreachable) return;
    failure_.ede = wire::Ede::NetworkError;
  } else {
    if (has_rcode_) return;
    failure_.ede = wire::Ede::InvalidData;
    failure_.unreachable = false;
    failure_from_ = upstream.name();
  }
  failure_.text = what;
}

void Flight::note_shortage(const std::string& what) {
  is_short_ = true;
  groups_.note_shortage();
  if (has_rcode_) return;
  failure_.ede = wire::Ede::Other;
  failure_.text = what;
}

void Flight::on_reply(Exchange& exchange, const wire::ResponseMessage& response) {
  Try& attempt = try_of(exchange);
  const std::string& name = exchange.upstream().name();
  const std::string sent_name(exchange.sent_name());
  auto message = build_answer({question_.question, question_.dnssec_ok, question_.checking_disabled,
                               sent_name, response, exchange.carrier(), name},
                              rules_, reactor_.now());
  if (message) return finish(std::move(*message), name);

  const bool usable_rcode =
      response.rcode == wire::Rcode::NoError || response.rcode == wire::Rcode::NxDomain;
  failure_.unreachable = false;
  if (!usable_rcode || !has_rcode_) {
    failure_.rcode = usable_rcode ? wire::Rcode::ServFail : response.rcode;
    failure_.ede = message.error().denied ? wire::Ede::Blocked : wire::Ede::InvalidData;
    failure_.text = message.error().why;
    failure_from_ = name;
  }
  if (!usable_rcode) {
    // The upstream's own reason is more precise than ours.
    if (!response.extended_errors.empty()) {
      failure_.ede = static_cast<wire::Ede>(response.extended_errors.front().first);
      failure_.text = response.extended_errors.front().second;
    } else {
      failure_.ede = wire::Ede::Other;
      failure_.text =
          "the upstream server answered " + std::string(wire::to_string(response.rcode));
    }
    has_rcode_ = true;
  }
  const bool denied = message.error().denied;
  settle(attempt);
  if (denied) return finish_with_failure();
  go_on();
}

void Flight::finish_with_failure() {
  if (failure_.text.empty())
    failure_.text =
        plan_.upstreams.empty() ? plan_.why_empty : "no upstream server answered in time";
  failure_.server = failure_from_;
  finish(build_failure(key(), failure_, reactor_.now()), failure_from_);
}

void Flight::finish(MessageRef message, const std::string& upstream) {
  if (!starting_) {
    on_over_(message, upstream);
    return;
  }
  outcome_ = std::move(message);
  outcome_from_ = upstream;
  timer_.start(reactor_.now());
}

}  // namespace meshdns::dnsd
