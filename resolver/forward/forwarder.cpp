// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/forwarder.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "registry/base/handle.hpp"
#include "registry/base/ip_address.hpp"
#include "resolver/forward/datagram_sockets.hpp"

namespace meshdns::dnsd {
namespace {

// Time beyond the timeout that a worker waits for a question that another worker asks.
constexpr Millis kJoinGrace = 500;
// Clients that may wait at a worker, for each place in the table of flights.
constexpr std::size_t kWaitersPerPlace = 4;

void bump(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// The key has everything that changes the answer, so RD as well, and the servers that are asked:
// nobody waits for an answer of those that were asked before a reload.
std::string flight_key_of(const CacheKey& key, bool recursion_desired, std::uint64_t servers) {
  std::string text(key.bytes());
  text.push_back(recursion_desired ? '\1' : '\0');
  for (int shift = 0; shift < 64; shift += 8) text.push_back(static_cast<char>(servers >> shift));
  return text;
}

}  // namespace

// A question that this worker or another one asks, and the queries that wait for it here.
class Forwarder::Pending final : public Recycled<Pending>, public Retirable {
 public:
  Pending(Forwarder& forwarder, const ForwardRequest& request, const CacheKey& cache_key,
          std::string flight, std::uint64_t asked)
      : Retirable(forwarder.reactor_.retired()),
        key(cache_key),
        servers(asked),
        flight_key(std::move(flight)),
        question{request.question, request.dnssec_ok, request.checking_disabled,
                 request.recursion_desired, limit_key_of(request.client)},
        may_be_stale(forwarder.serve_stale_ && request.recursion_desired),
        forwarder_(forwarder),
        timer_(forwarder.reactor_, [this] { on_time(); }) {}

  void add(Waiter waiter) {
    waiter.stale_at = forwarder_.reactor_.now() + kStaleAfter;
    waiters.push_back(std::move(waiter));
    arm();
  }
  // This worker asks, from take_off() on.
  void lead(FlightPlan plan, const AnswerRules& rules) {
    flight_ = make_owned<Flight>(
        forwarder_.reactor_, forwarder_.groups_, question, std::move(plan), rules,
        [weak = Weak(*this)](const MessageRef& message, const std::string& upstream) {
          if (Pending* const pending = weak.get())
            pending->forwarder_.on_flight_result(*pending, *pending->flight_, message, upstream);
        });
  }
  void take_off() { flight_->start(); }
  // Another worker asks; its result should be here by then.
  void follow(Millis until) {
    ends_at_ = until;
    arm();
  }
  bool is_led_here() const { return flight_ != nullptr; }

  const CacheKey key;
  const std::uint64_t servers;  // UpstreamGroup::identity
  const std::string flight_key;
  const UpstreamQuestion question;
  const bool may_be_stale;
  std::vector<Waiter> waiters;  // in the order of arrival, so of stale_at, too

 private:
  ~Pending() override = default;
  void on_retire() override {
    timer_.stop();
    flight_.reset();
  }

  void on_time();

  void arm() {
    Millis next = ends_at_;
    if (may_be_stale && !no_stale_ && !waiters.empty())
      next = next == 0 ? waiters.front().stale_at : std::min(next, waiters.front().stale_at);
    if (next == 0) return timer_.stop();
    if (!timer_.is_running() || timer_.at() != next) timer_.start(next);
  }

  Forwarder& forwarder_;
  Owned<Flight> flight_;
  Timer timer_;
  Millis ends_at_ = 0;     // 0 = the flight says when
  bool no_stale_ = false;  // looked for in vain
};

// RFC 8767, section 5: a client that has waited long enough gets the stale answer; the flight goes
// on.
void Forwarder::Pending::on_time() {
  const Millis now = forwarder_.reactor_.now();
  if (ends_at_ != 0 && now >= ends_at_) {
    const FailureText text{wire::Rcode::ServFail, wire::Ede::NoReachableAuthority,
                           "no upstream server answered in time", true};
    return forwarder_.end(*this, {build_failure(key, text, now), {}});
  }
  Outcome outcome;
  outcome.freshness = Freshness::Stale;
  outcome.message = forwarder_.shared_->cache.find_stale(key, now);
  no_stale_ = !outcome.message;
  std::vector<Waiter> served;
  if (!no_stale_) {
    const auto end = std::ranges::find_if(
        waiters, [now](const Waiter& waiter) { return waiter.stale_at > now; });
    served.assign(std::move_iterator(waiters.begin()), std::move_iterator(end));
    waiters.erase(waiters.begin(), end);
  }
  arm();
  for (std::size_t i = 0; i < served.size(); ++i) bump(forwarder_.counters_.stale_answers);
  forwarder_.answer(std::move(served), outcome);
}

void ForwardShared::reconfigure(const UpstreamConfig& upstream) {
  flights.set_limit(upstream.max_in_flight);
  cache.deny(DeniedAnswers(upstream));
  cache.use_servers(AskedServers(upstream));
}

Forwarder::Forwarder(uv_loop_t* loop, std::shared_ptr<ForwardShared> shared,
                     const UpstreamConfig& upstream, const CacheConfig& cache)
    : shared_(std::move(shared)),
      reactor_(loop),
      groups_(reactor_, shared_->upstreams,
              {.on_recovery = [this] { shared_->cache.note_recovery(reactor_.now()); },
               .on_shortage = [this] { bump(counters_.shortages); }}),
      mailbox_(std::make_shared<loop::Mailbox>()),
      // The task runs only while the Forwarder lives: it closes the mailbox at its end.
      deliver_([this, mailbox = mailbox_](const std::string& key, const FlightResult& result) {
        mailbox->post([this, key, result] { on_delivery(key, result); });
      }),
      later_timer_(reactor_, [this] { answer_all_later(); }),
      take_offs_(loop, [this] { take_off_some(); }) {
  check_loop(mailbox_->open(loop), "be woken by other threads");
  mailbox_->unref();
  // Upstream queries alone do not keep the loop running.
  take_offs_.unref();
  reconfigure(upstream, cache);
}

Forwarder::~Forwarder() { close(); }

void Forwarder::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  const auto this_turn = turn();
  timeout_ = static_cast<Millis>(upstream.timeout.count());
  max_in_flight_ = upstream.max_in_flight;
  serve_stale_ = cache.serve_stale.count() > 0;
  nxdomain_cut_ = cache.nxdomain_cut;
  rules_.min_ttl = cache.min_ttl;
  rules_.max_ttl = cache.max_ttl;
  rules_.negative_max_ttl = cache.negative_max_ttl;
  denied_ = DeniedAnswers(upstream);
  AskedServers servers(upstream);
  // Other servers may answer what could not be answered.
  if (servers != servers_) shared_->cache.note_recovery(reactor_.now());
  servers_ = std::move(servers);
  groups_.reconfigure(upstream);
}

void Forwarder::close() {
  const auto this_turn = turn();
  if (std::exchange(closed_, true)) return;
  const FailureText text{wire::Rcode::ServFail, wire::Ede::NotReady, "shutting down", true};
  while (!pending_.empty()) {
    Pending& pending = *pending_.begin()->second;
    const MessageRef message = build_failure(pending.key, text, reactor_.now());
    if (pending.is_led_here()) shared_->flights.finish(pending.flight_key, {message, {}});
    end(pending, {message, {}});
  }
  do {
    answer_all_later();
  } while (!later_.empty());
  groups_.close();
  later_timer_.stop();
  take_offs_.close();
  mailbox_->close();
  reactor_.close();
}

Forwarder::Route Forwarder::route(std::string_view wire_name) const {
  const UpstreamGroup& group = groups_.group_of(wire_name);
  Route route{group.zone, group.is_of_link, {}};
  for (const auto& upstream : group.upstreams) route.servers.push_back(upstream->name());
  return route;
}

bool Forwarder::has_other_servers(std::string_view name, std::string_view target,
                                  bool also_outside) const {
  if (groups_.has_no_zones()) return false;
  const UpstreamGroup& group = groups_.group_of(target);
  return (also_outside || !group.zone.empty()) && group.identity != groups_.group_of(name).identity;
}

// A copy: the caller's own request may end with the turn that is made here.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void Forwarder::resolve(ForwardRequest request, OutcomeCallback callback) {
  const auto this_turn = turn();
  bump(counters_.requests);
  const CacheKey key(request.question, request.dnssec_ok, request.checking_disabled);
  const bool has_room = has_room_for(request.client);
  Waiter waiter = make_waiter(request.client, std::move(callback));
  Outcome outcome;
  if (closed_) {
    outcome = refusal(key, wire::Ede::NotReady, "shutting down");
  } else if (!has_room) {
    outcome = refusal_or_stale(key, FlightTable::Admission::FullClient);
  } else if (!answer_at_once(request, key, outcome)) {
    if (Pending* const pending = start(request, key, Purpose::Client, outcome))
      return pending->add(std::move(waiter));
  }
  answer_later(std::move(waiter), std::move(outcome));
}

void Forwarder::refresh(ForwardRequest request) {
  if (closed_) return;
  const auto this_turn = turn();
  request.recursion_desired = true;
  const CacheKey key(request.question, request.dnssec_ok, request.checking_disabled);
  bump(counters_.refreshes);
  Outcome unused;
  start(request, key, Purpose::Refresh, unused);
}

// Answers without an upstream: our own loop check that came back, names below a denied one, and
// stale answers while all servers are down or have just failed.
bool Forwarder::answer_at_once(const ForwardRequest& request, const CacheKey& key,
                               Outcome& outcome) {
  const Millis now = reactor_.now();
  const std::string_view label = loop_label_of(request.question.name);
  if (!label.empty() && shared_->upstreams.note_came_back(label, now)) {
    outcome = refusal(key, wire::Ede::Other, "forwarding loop");
    return true;
  }
  if (nxdomain_cut_ && request.recursion_desired && deny_below_denied(request, key, outcome))
    return true;
  if (!serve_stale_ || !request.recursion_desired) return false;
  const bool paused = shared_->cache.is_refresh_paused(key, now);
  if (!paused && !UpstreamGroups::is_hopeless(groups_.group_of(request.question.name)))
    return false;
  outcome.message = shared_->cache.find_stale(key, now);
  if (!outcome.message) return false;
  outcome.freshness = Freshness::Stale;
  bump(counters_.stale_answers);
  if (!paused) refresh(request);
  return true;
}

// RFC 8020, section 2: a name that does not exist has no names below it.  This holds only where the
// same servers answer: those of a zone of upstream.zones know names that the servers above it deny.
bool Forwarder::deny_below_denied(const ForwardRequest& request, const CacheKey& key,
                                  Outcome& outcome) {
  const Millis now = reactor_.now();
  const MessageRef denial = shared_->cache.find_denial_above(key, now);
  if (!denial || !groups_.is_same_group(denial->name(), request.question.name)) return false;
  wire::ResponseMessage response = denial->expand(now, Freshness::Fresh);
  response.question = request.question;
  response.question_name = request.question.name;
  auto message = build_answer({request.question, request.dnssec_ok, request.checking_disabled,
                               request.question.name, response},
                              rules_, now);
  if (!message) return false;
  outcome.message = std::move(*message);
  return true;
}

Forwarder::Pending* Forwarder::start(const ForwardRequest& request, const CacheKey& key,
                                     Purpose purpose, Outcome& outcome) {
  const std::uint64_t servers = groups_.group_of(request.question.name).identity;
  std::string flight_key = flight_key_of(key, request.recursion_desired, servers);
  if (const auto found = pending_.find(flight_key); found != pending_.end()) {
    bump(counters_.joined);
    return found->second.get();
  }
  const auto admission =
      shared_->flights.enter(flight_key, request.question.name, request.client, deliver_);
  const bool leads = admission == FlightTable::Admission::Lead;
  if (!leads && admission != FlightTable::Admission::Join) {
    outcome = refusal_or_stale(key, admission);
    return nullptr;
  }
  if (leads && purpose == Purpose::Client && request.recursion_desired) {
    // Another worker may have stored it since this client's look into the cache.
    outcome.message = shared_->cache.find(key, reactor_.now());
    if (outcome.message) {
      shared_->flights.finish(flight_key, {outcome.message, {}});
      return nullptr;
    }
  }
  auto owned = make_owned<Pending>(*this, request, key, std::move(flight_key), servers);
  Pending& pending = *owned;
  pending_.emplace(pending.flight_key, std::move(owned));
  if (leads) {
    lead(pending, request);
  } else {
    bump(counters_.joined);
    pending.follow(reactor_.now() + timeout_ + kJoinGrace);
  }
  return &pending;
}

void Forwarder::lead(Pending& pending, const ForwardRequest& request) {
  UpstreamGroup& group = groups_.group_of(request.question.name);
  FlightPlan plan = groups_.plan_for(group);
  plan.deadline = reactor_.now() + timeout_;
  plan.max_packets = request.max_packets;
  AnswerRules rules = rules_;
  if (!denied_.is_exempt(request.question.name)) rules.denied = denied_.addresses();
  pending.lead(std::move(plan), rules);
  if (grounded_.size() == 0) take_offs_.start();
  grounded_.push(pending.question.client, Weak(pending));
  if (grounded_.size() > kMaxGrounded) take_off_next();
}

void Forwarder::take_off_some() {
  const auto this_turn = turn();
  for (std::size_t left = kTakeOffsPerTurn; left > 0 && grounded_.size() > 0; --left)
    take_off_next();
  if (grounded_.size() == 0) take_offs_.stop();
}

// A flight may be over before: at a shutdown.
void Forwarder::take_off_next() {
  const Weak<Pending> next = grounded_.pop();
  if (next) next.get()->take_off();
}

void Forwarder::on_flight_result(Pending& pending, const Flight& flight, const MessageRef& message,
                                 const std::string& upstream) {
  // After a reload, the answer of a server that is asked no more must not take the place of others.
  const bool is_asked =
      groups_.group_of(pending.question.question.name).identity == pending.servers;
  if (pending.question.recursion_desired && is_asked) {
    if (message->kind() == MessageKind::Failure) {
      bump(counters_.failures);
      if (!flight.is_short()) shared_->cache.store_failure(message, reactor_.now());
    } else {
      shared_->cache.store(message, pending.key);
    }
  }
  const FlightResult result{message, upstream, flight.packets()};
  shared_->flights.finish(pending.flight_key, result);
  end(pending, result);
}

void Forwarder::on_delivery(const std::string& flight_key, const FlightResult& result) {
  const auto this_turn = turn();
  const auto found = pending_.find(flight_key);
  if (found == pending_.end() || found->second->is_led_here()) return;
  end(*found->second, result);
}

void Forwarder::end(Pending& pending, const FlightResult& result) {
  Outcome outcome;
  outcome.message = result.message;
  outcome.upstream = result.upstream;
  outcome.packets = result.packets;
  if (result.message->kind() == MessageKind::Failure && pending.may_be_stale) {
    if (MessageRef stale = shared_->cache.find_stale(pending.key, reactor_.now())) {
      outcome.message = std::move(stale);
      outcome.freshness = Freshness::Stale;
      for (std::size_t i = 0; i < pending.waiters.size(); ++i) bump(counters_.stale_answers);
    }
  }
  std::vector<Waiter> waiters = std::move(pending.waiters);
  // Out of the map first: callbacks may ask the same again.
  pending_.erase(pending_.find(pending.flight_key));
  answer(std::move(waiters), outcome);
}

bool Forwarder::has_room_for(const IpAddress& client) const {
  if (waiting_ >= max_in_flight_ * kWaitersPerPlace) return false;
  const auto found = waiting_by_client_.find(limit_key_of(client));
  return found == waiting_by_client_.end() || found->second < max_in_flight_;
}

Forwarder::Waiter Forwarder::make_waiter(const IpAddress& client, OutcomeCallback callback) {
  const IpAddress key = limit_key_of(client);
  ++waiting_;
  ++waiting_by_client_[key];
  counters_.waiting.store(waiting_, std::memory_order_relaxed);
  return {std::move(callback), key};
}

void Forwarder::answer(std::vector<Waiter> waiters, const Outcome& outcome) {
  for (Waiter& waiter : waiters)
    due_.push_back({std::move(waiter), outcome, std::string(outcome.upstream)});
  answer_due();
}

void Forwarder::answer_later(Waiter waiter, Outcome outcome) {
  later_.push_back({std::move(waiter), std::move(outcome), {}});
  if (later_.size() == 1 && !closed_) later_timer_.start(reactor_.now());
}

void Forwarder::answer_all_later() {
  std::ranges::move(later_, std::back_inserter(due_));
  later_.clear();
  answer_due();
}

// A callback may close the forwarder, which answers all that are left.
void Forwarder::answer_due() {
  while (!due_.empty()) {
    Due next = std::move(due_.front());
    due_.pop_front();
    --waiting_;
    if (const auto found = waiting_by_client_.find(next.waiter.limit_key); --found->second == 0)
      waiting_by_client_.erase(found);
    counters_.waiting.store(waiting_, std::memory_order_relaxed);
    next.outcome.upstream = next.upstream;
    next.waiter.callback(next.outcome);
  }
}

Outcome Forwarder::refusal(const CacheKey& key, wire::Ede ede, std::string text) const {
  Outcome outcome;
  outcome.message =
      build_failure(key, {wire::Rcode::ServFail, ede, std::move(text), false}, reactor_.now());
  return outcome;
}

// Over a limit, the answer comes at once.  A queue would only delay every client.
Outcome Forwarder::refusal_or_stale(const CacheKey& key, FlightTable::Admission why) {
  bump(counters_.rejected);
  Outcome outcome;
  if (serve_stale_) outcome.message = shared_->cache.find_stale(key, reactor_.now());
  if (outcome.message) {
    outcome.freshness = Freshness::Stale;
    bump(counters_.stale_answers);
    return outcome;
  }
  const char* const text =
      why == FlightTable::Admission::FullClient ? "this client has too many questions in flight"
      : why == FlightTable::Admission::FullZone ? "this zone has too many questions in flight"
                                                : "too many questions in flight";
  return refusal(key, wire::Ede::Other, text);
}

}  // namespace meshdns::dnsd
