// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_state.hpp"

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/configured_sources.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "registry/base/durable_file.hpp"
#include "registry/tables/persistent_vips.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::dnsd {
namespace {

// The loops' clock, which the cache counts in.
Millis loop_now() { return uv_hrtime() / 1'000'000; }

constexpr std::string_view kCacheFile = "cache";

}  // namespace

void CacheKeeper::open(const std::string& state_dir, std::shared_ptr<ForwardShared> forwarding) {
  file_ = state_file(state_dir, kCacheFile);
  forwarding_ = std::move(forwarding);
  if (file_.empty() || !forwarding_->cache.is_enabled()) return;
  busy_ = true;
  work_ = std::jthread([this] {
    load();
    busy_ = false;
  });
}

void CacheKeeper::move_to(const std::string& state_dir) {
  if (state_file(state_dir, kCacheFile) == file_) return;
  if (work_.joinable()) work_.join();
  file_ = state_file(state_dir, kCacheFile);
}

void CacheKeeper::tick(std::chrono::steady_clock::time_point now) {
  if (file_.empty() || busy_ || now < saved_at_ + kSavePause) return;
  saved_at_ = now;
  busy_ = true;
  work_ = std::jthread([this] {
    save();
    busy_ = false;
  });
}

void CacheKeeper::close() {
  if (work_.joinable()) work_.join();
  if (!file_.empty() && forwarding_) save();
  file_.clear();
}

void CacheKeeper::load() {
  // Messages on disk are about as large as in memory.
  const std::size_t limit = 2 * forwarding_->cache.statistics().capacity_bytes + (1U << 20);
  const auto block = read_octets(file_, limit);
  if (!block) return log_.warn(block.error().message);
  if (!*block || (*block)->empty()) return;
  const auto loaded = forwarding_->cache.load(**block, unix_now(), loop_now());
  if (loaded)
    return log_.info("restored the cache of the last run", {{"answers", std::to_string(*loaded)}});
  const std::string aside = file_ + ".bad-" + std::to_string(unix_now());
  const bool moved = std::rename(file_.c_str(), aside.c_str()) == 0;
  log_.warn("cannot use the saved cache; starting with an empty cache",
            {{"file", std::string_view(file_)},
             {"reason", std::string_view(loaded.error().message)},
             {"aside", moved ? std::string_view(aside) : std::string_view("not moved")}});
}

void CacheKeeper::save() {
  if (!forwarding_->cache.is_enabled()) return;
  const auto written = write_durably(file_, forwarding_->cache.save(unix_now(), loop_now()));
  if (!written)
    log_.warn("cannot save the cache", {{"reason", std::string_view(written.error().message)}});
}

namespace {

// The allocator of persistent VIPs, as mesh.auto_allocate and state_dir allow.
struct VipSetup {
  std::unique_ptr<registry::VipAllocator> allocator;  // null: the registry's own is right
  std::string trouble;                                // why there are no persistent VIPs, or empty
};

// Without the file that is configured there are no VIPs: other addresses than before would lead
// clients astray.  REQUIRES: `log` outlives the allocator.
VipSetup set_up_vips(const Config& config, const StateDirectory& state, Log& log) {
  const auto report = [&log](const std::string& message) { log.error(message); };
  if (config.mesh.auto_allocate == registry::AutoAllocate::Hash)
    return {std::make_unique<registry::HashVips>(config.mesh.vip_namespace_quota, report), {}};
  if (config.mesh.auto_allocate != registry::AutoAllocate::Persistent) return {};
  if (config.state_dir.empty())
    log.warn(
        "mesh.auto_allocate is persistent but state_dir is empty; a restart assigns other VIPs");
  if (!state.trouble().empty()) {
    log.error("persistent VIPs are off because state_dir cannot be used");
    return {std::make_unique<registry::NoVips>(), "off because state_dir cannot be used"};
  }
  registry::PersistentVipOptions options;
  options.v4 = config.mesh.vip_cidr_v4;
  options.v6 = config.mesh.vip_cidr_v6;
  options.namespace_quota = config.mesh.vip_namespace_quota;
  options.file = state_file(state.path(), "vips");
  options.quarantine = std::chrono::seconds(10 * std::max(config.mesh.ttl.vip, 1U));
  options.clock = unix_now;
  options.report = report;
  auto allocator = std::make_unique<registry::PersistentVips>(std::move(options));
  std::string trouble = allocator->trouble();
  return {std::move(allocator), std::move(trouble)};
}

}  // namespace

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
