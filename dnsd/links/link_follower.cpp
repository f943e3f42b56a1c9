// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/link_follower.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "dnsd/links/networkmanager_dns.hpp"
#include "dnsd/links/resolved_dns.hpp"
#include "dnsd/links/system_bus.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

// A VPN client sets servers and domains one after the other.
constexpr std::chrono::milliseconds kSettle{100};
// systemd-resolved does not tell when a link goes.
constexpr std::chrono::seconds kAskAgain{5};

using Links = std::optional<std::vector<LinkDns>>;

}  // namespace

struct LinkFollower::Parts {
  std::function<void()> on_change;
  Links of_resolved;
  Links of_networkmanager;
  loop::Timer settle;
  loop::Timer again;  // while links have domains
  ResolvedDns resolved{[this](Links links) {
    of_resolved = std::move(links);
    settle.start(kSettle);
  }};
  NetworkManagerDns networkmanager{[this](Links links) {
    of_networkmanager = std::move(links);
    settle.start(kSettle);
  }};
  SystemBus bus;  // ends first
};

LinkFollower::LinkFollower() = default;
LinkFollower::~LinkFollower() { stop(); }

void LinkFollower::start(uv_loop_t* loop, std::function<void()> on_change) {
  stop();
  parts_ = std::make_unique<Parts>();
  Parts& parts = *parts_;
  parts.on_change = std::move(on_change);
  parts.settle.open(loop, [this] { update(); });
  parts.again.open(loop, [this] { ask_again(); });
  parts.bus.open(
      loop,
      [&parts](sd_bus* bus) {
        parts.resolved.follow(bus);
        parts.networkmanager.follow(bus);
      },
      // The settings stay as they were: D-Bus may only be restarted.
      [&parts] {
        parts.resolved.forget();
        parts.networkmanager.forget();
      });
}

void LinkFollower::ask_again() {
  if (!parts_) return;
  parts_->resolved.ask();
  parts_->networkmanager.ask();
  parts_->bus.turn();
}

void LinkFollower::stop() {
  routes_ = {};
  if (!parts_) return;
  parts_->resolved.forget();
  parts_->networkmanager.forget();
  parts_.reset();
}

// systemd-resolved knows what NetworkManager knows, and more, unless they are kept apart.
void LinkFollower::update() {
  const Links& links = parts_->of_resolved && !parts_->of_resolved->empty()
                           ? parts_->of_resolved
                           : parts_->of_networkmanager;
  LinkRoutes next = links ? routes_of(*links) : LinkRoutes();
  if (next.zones.empty())
    parts_->again.stop();
  else
    parts_->again.start(kAskAgain);
  if (next == routes_) return;
  routes_ = std::move(next);
  // A copy: the callback may stop us.
  const auto on_change = parts_->on_change;
  on_change();
}

}  // namespace meshdns::dnsd
