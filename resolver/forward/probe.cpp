// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/probe.hpp"

#include <algorithm>

#include "resolver/forward/upstream_groups.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kLoopZone("\x0aloop-check\x07meshdns\x08internal\0", 29);
constexpr std::size_t kLoopLabelSize = 32;

wire::Question probe_question(ProbePurpose purpose, const UpstreamState& state) {
  if (purpose != ProbePurpose::Loop) return {std::string(1, '\0'), wire::Type::Ns, wire::Class::In};
  std::string name(1, static_cast<char>(kLoopLabelSize));
  name += state.loop_label();
  name += kLoopZone;
  return {std::move(name), wire::Type::Txt, wire::Class::In};
}

}  // namespace

std::string_view loop_label_of(std::string_view wire_name) {
  if (wire_name.size() != 1 + kLoopLabelSize + kLoopZone.size() || wire_name[0] != kLoopLabelSize ||
      !wire_name.ends_with(kLoopZone))
    return {};
  return wire_name.substr(1, kLoopLabelSize);
}

Probe::Probe(Reactor& reactor, UpstreamGroups& groups, std::shared_ptr<Upstream> upstream,
             ProbePurpose purpose)
    : Retirable(reactor.retired()),
      reactor_(reactor),
      groups_(groups),
      upstream_(std::move(upstream)),
      purpose_(purpose),
      timer_(reactor, [this] { on_time(); }) {
  question_.question = probe_question(purpose, upstream_->state());
  question_.recursion_desired = purpose == ProbePurpose::Loop;
  question_.is_probe = true;
}

Probe::~Probe() = default;

void Probe::on_retire() {
  timer_.stop();
  exchange_.reset();
}

bool Probe::start() {
  upstream_->state().counts.probes.fetch_add(1, std::memory_order_relaxed);
  exchange_ = make_owned<Exchange>(upstream_, question_, Weak<ExchangeListener>(*this, *this));
  if (const auto sent = exchange_->start(); !sent) {
    sent.error().is_shortage ? put_off() : lose(sent.error().message);
    return false;
  }
  const bool tls = upstream_->server().transport == UpstreamTransport::Tls;
  // A slow upstream is no dead one.
  const Millis patience = std::max(upstream_->state().retry_after(), tls ? kTlsTimeout : kTimeout);
  timer_.start(reactor_.now() + patience);
  return true;
}

void Probe::lose(std::string_view reason) {
  UpstreamState& state = upstream_->state();
  switch (purpose_) {
    case ProbePurpose::Life:
      return state.note_probe_lost(reactor_.now(), reason);
    case ProbePurpose::Speed:
      return state.note_timeout(exchange_->sent_at());
    case ProbePurpose::Loop:
      return state.note_loop_check_lost(reactor_.now());
  }
}

// It was not asked, through no fault of its own.
void Probe::put_off() {
  UpstreamState& state = upstream_->state();
  if (purpose_ == ProbePurpose::Life) state.put_off_probe(reactor_.now());
  if (purpose_ == ProbePurpose::Loop) state.put_off_loop_check(reactor_.now());
}

void Probe::on_reply(Exchange&, const wire::ResponseMessage&) {
  if (purpose_ == ProbePurpose::Loop) upstream_->state().note_loop_check_over();
  groups_.end(*this);
}

void Probe::on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) {
  // A reply that is too long or malformed is a sign of life, too.
  if (!exchange.has_replied()) fault == ExchangeFault::Shortage ? put_off() : lose(what);
  groups_.end(*this);
}

void Probe::on_recovery() { groups_.note_recovery(); }

void Probe::on_time() {
  if (!exchange_->has_replied()) exchange_->was_sent() ? lose("no answer in time") : put_off();
  groups_.end(*this);
}

}  // namespace meshdns::dnsd
