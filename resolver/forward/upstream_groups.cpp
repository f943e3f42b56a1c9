// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream_groups.hpp"

#include <algorithm>
#include <limits>

#include "registry/base/hash.hpp"
#include "resolver/cache/asked_servers.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

// The interval of the checks of doubtful upstream servers and of the loop checks.
constexpr Millis kTick = 100;
constexpr Millis kIdleTick = 2'000;
// Policy fastest: how often those that are not asked are measured.
constexpr Millis kExplorePause = 10'000;

std::uint64_t identity_of(const std::vector<UpstreamServer>& servers) {
  std::uint64_t sum = 0;
  for (const UpstreamServer& server : servers) sum += hash_bytes(server.to_string());
  return sum;
}

constexpr std::string_view kLoopZone("\x0aloop-check\x07meshdns\x08internal\0", 29);
constexpr std::size_t kLoopLabelSize = 32;

wire::Question life_question() { return {std::string(1, '\0'), wire::Type::Ns, wire::Class::In}; }

wire::Question loop_question(const UpstreamState& state) {
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

// A question of our own to an upstream, whose state gets the result.
class UpstreamGroups::Probe final : public ExchangeListener {
 public:
  Probe(UpstreamGroups& groups, std::shared_ptr<Upstream> upstream, Purpose purpose)
      : ExchangeListener(groups.reactor_.retired()),
        groups_(groups),
        upstream_(std::move(upstream)),
        purpose_(purpose),
        timer_(groups.reactor_, [this] { on_time(); }) {
    question_.question = purpose == Purpose::Loop ? loop_question(state()) : life_question();
    question_.recursion_desired = purpose == Purpose::Loop;
    question_.is_probe = true;
  }

  // False: it could not be sent, and is over.  After true, it ends itself.
  bool start() {
    state().counts.probes.fetch_add(1, kRelaxed);
    exchange_ = make_owned<Exchange>(upstream_, question_, Weak<ExchangeListener>(*this));
    if (const auto sent = exchange_->start(); !sent) {
      sent.error().is_shortage ? put_off() : lose(sent.error().message);
      return false;
    }
    const bool tls = upstream_->server().transport == UpstreamTransport::Tls;
    // A slow upstream is no dead one.
    timer_.start(now() + std::max(state().retry_after(), tls ? kTlsTimeout : kTimeout));
    return true;
  }

 private:
  static constexpr Millis kTimeout = 500;
  static constexpr Millis kTlsTimeout = 1'500;  // with the handshake

  ~Probe() override = default;
  void on_retire() override {
    timer_.stop();
    exchange_.reset();
  }

  void on_reply(Exchange&, const wire::ResponseMessage&) override {
    if (purpose_ == Purpose::Loop) state().note_loop_check_over();
    groups_.end(*this);
  }
  void on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) override {
    // A reply that is too long or malformed is a sign of life, too.
    if (!exchange.has_replied()) fault == ExchangeFault::Shortage ? put_off() : lose(what);
    groups_.end(*this);
  }
  void on_progress(Exchange&) override {}
  void on_recovery() override { groups_.note_recovery(); }
  bool may_send() const override { return true; }
  void on_time() {
    if (!exchange_->has_replied()) exchange_->was_sent() ? lose("no answer in time") : put_off();
    groups_.end(*this);
  }

  void lose(std::string_view reason) {
    switch (purpose_) {
      case Purpose::Life:
        return state().note_probe_lost(now(), reason);
      case Purpose::Speed:
        return state().note_timeout(exchange_->sent_at());
      case Purpose::Loop:
        return state().note_loop_check_lost(now());
    }
  }
  // It was not asked, through no fault of its own.
  void put_off() {
    if (purpose_ == Purpose::Life) state().put_off_probe(now());
    if (purpose_ == Purpose::Loop) state().put_off_loop_check(now());
  }

  UpstreamState& state() const { return upstream_->state(); }
  Millis now() const { return groups_.reactor_.now(); }

  UpstreamGroups& groups_;
  std::shared_ptr<Upstream> upstream_;
  Purpose purpose_;
  UpstreamQuestion question_;
  Owned<Exchange> exchange_;
  Timer timer_;
};

UpstreamGroups::UpstreamGroups(Reactor& reactor, UpstreamStates& states, Hooks hooks)
    : reactor_(reactor),
      states_(states),
      hooks_(std::move(hooks)),
      tick_(reactor, [this] { check_health(); }) {}

UpstreamGroups::~UpstreamGroups() = default;

std::shared_ptr<Upstream> UpstreamGroups::upstream_of(const UpstreamServer& server,
                                                      const UpstreamOptions& options,
                                                      UpstreamList& kept) {
  const auto is_same = [&](const auto& known) {
    return known->server() == server && known->options() == options;
  };
  if (const auto found = std::ranges::find_if(kept, is_same); found != kept.end()) return *found;
  const auto old = std::ranges::find_if(all_, is_same);
  kept.push_back(old != all_.end()
                     ? *old
                     : make_shared_owned<Upstream>(reactor_, random_, server,
                                                   states_.state_of(server), options));
  return kept.back();
}

void UpstreamGroups::reconfigure(const UpstreamConfig& config) {
  policy_ = config.policy;
  const UpstreamOptions options{config.case_randomization,
                                config.cookies == UpstreamCookieMode::Auto, config.tls_ca_file};
  UpstreamList kept;
  default_group_ = {};
  for (const UpstreamServer& server : config.servers)
    default_group_.upstreams.push_back(upstream_of(server, options, kept));
  default_group_.identity = identity_of(config.servers);
  zones_.clear();
  for (const auto& [zone, servers] : config.zones) {
    auto group = std::make_unique<UpstreamGroup>();
    group->zone = zone;
    group->is_of_link = config.link_zones.contains(zone);
    for (const UpstreamServer& server : servers)
      group->upstreams.push_back(upstream_of(server, options, kept));
    group->identity = identity_of(servers);
    zones_[wire::wire_from_host(zone)] = std::move(group);
  }
  all_ = std::move(kept);
  tick_.start(reactor_.now());
}

void UpstreamGroups::close() {
  tick_.stop();
  probes_.clear();
  for (const auto& upstream : all_) upstream->close();
}

UpstreamGroup& UpstreamGroups::group_of(std::string_view wire_name) {
  const auto* const zone = find_zone(zones_, wire_name);
  return zone != nullptr ? **zone : default_group_;
}

const UpstreamGroup& UpstreamGroups::group_of(std::string_view wire_name) const {
  const auto* const zone = find_zone(zones_, wire_name);
  return zone != nullptr ? **zone : default_group_;
}

bool UpstreamGroups::is_hopeless(const UpstreamGroup& group) {
  return !group.upstreams.empty() && std::ranges::all_of(group.upstreams, [](const auto& upstream) {
    return upstream->state().health() == Health::Down;
  });
}

FlightPlan UpstreamGroups::plan_for(UpstreamGroup& group) {
  FlightPlan plan;
  plan.all_at_once = policy_ == UpstreamPolicy::Parallel;
  for (const auto& upstream : group.upstreams)
    if (!upstream->state().is_looped()) plan.upstreams.push_back(upstream);
  plan.why_empty = group.upstreams.empty() ? "no upstream server is configured"
                                           : "every upstream server forwards back to this server";
  if (plan.upstreams.size() > 1) order(group, plan.upstreams);
  return plan;
}

void UpstreamGroups::order(UpstreamGroup& group, UpstreamList& upstreams) {
  const auto speed = [](const std::shared_ptr<Upstream>& upstream) {
    const std::uint32_t rtt = upstream->state().rtt_us();
    return rtt == 0 ? std::numeric_limits<std::uint32_t>::max() : rtt;
  };
  switch (policy_) {
    case UpstreamPolicy::Fastest:
      std::ranges::stable_sort(upstreams, std::less<>(), speed);
      explore(upstreams);
      break;
    case UpstreamPolicy::RoundRobin:
      std::ranges::rotate(upstreams, upstreams.begin() + group.turn++ % upstreams.size());
      break;
    case UpstreamPolicy::Random:
      for (std::size_t left = upstreams.size(); left > 1; --left)
        std::swap(upstreams[left - 1], upstreams[random_.below(static_cast<std::uint32_t>(left))]);
      break;
    case UpstreamPolicy::Sequential:
    case UpstreamPolicy::Parallel:
      break;
  }
  std::ranges::stable_sort(upstreams, std::less<>(), [](const std::shared_ptr<Upstream>& upstream) {
    return upstream->state().health();
  });
}

// Servers that lost once would never be asked again.  So they are measured from time to time while
// queries flow, by a question of the daemon, so that no client's goes to two servers.
void UpstreamGroups::explore(const UpstreamList& upstreams) {
  const Millis now = reactor_.now();
  if (now < explored_at_ + kExplorePause) return;
  explored_at_ = now;
  for (std::size_t i = 1; i < upstreams.size(); ++i)
    if (upstreams[i]->state().health() == Health::Up) probe(upstreams[i], Purpose::Speed);
}

void UpstreamGroups::probe(const std::shared_ptr<Upstream>& upstream, Purpose purpose) {
  probes_.push_back(make_owned<Probe>(*this, upstream, purpose));
  if (!probes_.back()->start()) probes_.pop_back();
}

void UpstreamGroups::end(const Probe& probe) {
  std::erase_if(probes_, [&](const auto& held) { return held.get() == &probe; });
}

void UpstreamGroups::note_doubt() {
  const Millis soon = reactor_.now();
  if (!tick_.is_running() || tick_.at() > soon) tick_.start(soon);
}

void UpstreamGroups::check_health() {
  const Millis now = reactor_.now();
  bool doubt = false;
  for (const auto& upstream : all_) {
    UpstreamState& state = upstream->state();
    if (state.health() != Health::Up) {
      doubt = true;
      if (state.claim_probe(now)) probe(upstream, Purpose::Life);
    } else if (state.claim_loop_check(now)) {
      probe(upstream, Purpose::Loop);
    }
  }
  tick_.start(now + (doubt ? kTick : kIdleTick));
}

}  // namespace meshdns::dnsd
