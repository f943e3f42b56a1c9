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

namespace meshdns::dnsd {
namespace {

// The loops' clock, which the cache counts in.
Millis loop_now() { return uv_hrtime() / 1'000'000; }

constexpr std::string_view kCacheFile = "cache";

}  // namespace

void SavedCache::open(const std::string& state_dir, std::shared_ptr<ForwardShared> forwarding) {
  file_ = state_file(state_dir, kCacheFile);
  forwarding_ = std::move(forwarding);
  if (file_.empty() || !forwarding_->cache.is_enabled()) return;
  busy_ = true;
  work_ = std::jthread([this] {
    load();
    busy_ = false;
  });
}

void SavedCache::move_to(const std::string& state_dir) {
  if (state_file(state_dir, kCacheFile) == file_) return;
  if (work_.joinable()) work_.join();
  file_ = state_file(state_dir, kCacheFile);
}

void SavedCache::tick(std::chrono::steady_clock::time_point now) {
  if (file_.empty() || busy_ || now < saved_at_ + kSavePause) return;
  saved_at_ = now;
  busy_ = true;
  work_ = std::jthread([this] {
    save();
    busy_ = false;
  });
}

void SavedCache::close() {
  if (work_.joinable()) work_.join();
  if (!file_.empty() && forwarding_) save();
  file_.clear();
}

void SavedCache::load() {
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

void SavedCache::save() {
  if (!forwarding_->cache.is_enabled()) return;
  const auto written = write_durably(file_, forwarding_->cache.save(unix_now(), loop_now()));
  if (!written)
    log_.warn("cannot save the cache", {{"reason", std::string_view(written.error().message)}});
}

KeptState::KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed,
                     Log& log)
    : config_(config),
      registry_(registry),
      feed_(feed),
      log_(log),
      cache_(log),
      saved_(registry, feed, log) {}

void KeptState::take(std::chrono::milliseconds wait) {
  const std::string& wanted = config_.state_dir;
  if (path() == wanted) return trouble_.clear();
  lock_.reset();
  if (wanted.empty()) return trouble_.clear();
  auto taken = StateLock::take(wanted, wait);
  if (!taken) {
    if (trouble_ != taken.error().message)
      log_.error("cannot use state_dir; nothing is saved until this is solved",
                 {{"reason", std::string_view(taken.error().message)}});
    trouble_ = std::move(taken.error().message);
    return;
  }
  if (!trouble_.empty())
    log_.info("now using state_dir", {{"state_dir", std::string_view(wanted)}});
  lock_ = *std::move(taken);
  trouble_.clear();
}

void KeptState::choose_vip_allocator() {
  vip_trouble_.clear();
  if (auto allocator = make_vip_allocator())
    feed_.follow(registry_.set_vip_allocator(std::move(allocator)));
}

// Without the file that is configured there are no VIPs: other addresses than before would lead
// clients astray.
std::unique_ptr<registry::VipAllocator> KeptState::make_vip_allocator() {
  const registry::MeshSettings& mesh = config_.mesh;
  const auto report = [&log = log_](const std::string& message) { log.error(message); };
  if (mesh.auto_allocate == registry::AutoAllocate::Hash)
    return std::make_unique<registry::HashVips>(mesh.vip_namespace_quota, report);
  if (mesh.auto_allocate != registry::AutoAllocate::Persistent) return nullptr;
  if (config_.state_dir.empty())
    log_.warn(
        "mesh.auto_allocate is persistent but state_dir is empty; a restart assigns other VIPs");
  if (!trouble_.empty()) {
    log_.error("persistent VIPs are off because state_dir cannot be used");
    vip_trouble_ = "off because state_dir cannot be used";
    return std::make_unique<registry::NoVips>();
  }
  registry::PersistentVipOptions options;
  options.v4 = mesh.vip_cidr_v4;
  options.v6 = mesh.vip_cidr_v6;
  options.namespace_quota = mesh.vip_namespace_quota;
  options.file = state_file(path(), "vips");
  options.quarantine = std::chrono::seconds(10 * std::max(mesh.ttl.vip, 1U));
  options.clock = unix_now;
  options.report = report;
  auto allocator = std::make_unique<registry::PersistentVips>(std::move(options));
  vip_trouble_ = allocator->trouble();
  return allocator;
}

void KeptState::open_cache(std::shared_ptr<ForwardShared> forwarding) {
  cache_.open(path(), std::move(forwarding));
}

void KeptState::open_registry() { saved_.open(path(), saved_sources(config_)); }

void KeptState::follow() {
  const std::string before = path();
  take(std::chrono::milliseconds(0));
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
