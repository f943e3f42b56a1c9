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

}  // namespace

UpstreamGroups::UpstreamGroups(Reactor& reactor, UpstreamStates& states, Hooks hooks)
    : reactor_(reactor),
      states_(states),
      hooks_(std::move(hooks)),
      tick_(reactor, [this] { check_health(); }) {}

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

// Those that lost once would never be asked again: measured from time to time while queries flow,
// by a question of our own so that no client's goes to two servers.
void UpstreamGroups::explore(const UpstreamList& upstreams) {
  const Millis now = reactor_.now();
  if (now < explored_at_ + kExplorePause) return;
  explored_at_ = now;
  for (std::size_t i = 1; i < upstreams.size(); ++i)
    if (upstreams[i]->state().health() == Health::Up) probe(upstreams[i], ProbePurpose::Speed);
}

void UpstreamGroups::probe(const std::shared_ptr<Upstream>& upstream, ProbePurpose purpose) {
  probes_.push_back(make_owned<Probe>(reactor_, *this, upstream, purpose));
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
      if (state.claim_probe(now)) probe(upstream, ProbePurpose::Life);
    } else if (state.claim_loop_check(now)) {
      probe(upstream, ProbePurpose::Loop);
    }
  }
  tick_.start(now + (doubt ? kTick : kIdleTick));
}

}  // namespace meshdns::dnsd
