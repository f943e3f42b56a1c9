// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_state.hpp"

#include <utility>

#include "dnsd/mesh/configured_sources.hpp"
#include "dnsd/mesh/vip_setup.hpp"

namespace meshdns::dnsd {

KeptState::KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed,
                     Log& log)
    : config_(config),
      registry_(registry),
      feed_(feed),
      log_(log),
      cache_(log),
      directory_(log),
      saved_(registry, feed, log) {}

void KeptState::take() { directory_.take(config_.state_dir, StateLock::kWait); }

void KeptState::choose_vip_allocator() {
  VipSetup setup = set_up_vips(config_, directory_, log_);
  vip_trouble_ = std::move(setup.trouble);
  if (setup.allocator) feed_.follow(registry_.set_vip_allocator(std::move(setup.allocator)));
}

void KeptState::open_cache(std::shared_ptr<ForwardShared> forwarding) {
  cache_.open(path(), std::move(forwarding));
}

void KeptState::open_registry() { saved_.open(path(), saved_sources(config_)); }

void KeptState::follow() {
  const std::string before = path();
  directory_.take(config_.state_dir, std::chrono::milliseconds(0));
  const std::string now = path();
  cache_.move_to(now);
  saved_.reconfigure(now, saved_sources(config_));
  if (now != before || !vip_trouble_.empty()) choose_vip_allocator();
}

void KeptState::tick(std::chrono::steady_clock::time_point now) {
  cache_.tick(now);
  saved_.tick(now);
}

void KeptState::close() {
  cache_.close();
  saved_.close();
}

}  // namespace meshdns::dnsd
