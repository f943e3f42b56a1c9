// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/cache_keeper.hpp"

#include <uv.h>

#include <cstdio>

#include "dnsd/mesh/state_file.hpp"
#include "registry/base/durable_file.hpp"

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

}  // namespace meshdns::dnsd
