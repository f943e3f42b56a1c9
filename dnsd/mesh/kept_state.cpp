// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_state.hpp"

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
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

SavedFile::Content saved_content(std::shared_ptr<ForwardShared> forwarding) {
  const auto of = [forwarding = std::move(forwarding)]() -> Cache& { return forwarding->cache; };
  return {
      .name = "cache",
      .restored = "restored the cache of the last run",
      .unit = "answers",
      .unusable = "cannot use the saved cache; starting with an empty cache",
      .unsaved = "cannot save the cache",
      // Messages on disk are about as large as in memory.
      .limit = [of]() -> std::size_t {
        return of().is_enabled() ? 2 * of().statistics().capacity_bytes + (1U << 20) : 0;
      },
      .load = [of](const auto& octets) { return of().load(octets, unix_now(), loop_now()); },
      .loads_in_background = true,
      .version = nullptr,
      .save = [of] { return [of] { return of().save(unix_now(), loop_now()); }; },
  };
}

SavedFile::Content saved_content(Dependencies& dependencies) {
  return {
      .name = "dependencies",
      .restored = "restored the dependencies of the last run",
      .unit = "rows",
      .unusable = "cannot use the saved dependencies; starting without them",
      .unsaved = "cannot save the dependencies",
      // Rows on disk are smaller than in memory, whose limit may have been higher.  Nothing is to
      // be recorded: then nothing is loaded, and the file has no rows after the next save.
      .limit = [&dependencies] { return dependencies.limits().memory + (64U << 20); },
      .load = [&dependencies](const auto& octets) -> Result<std::size_t> {
        const std::string_view text(reinterpret_cast<const char*>(octets.data()), octets.size());
        if (auto loaded = dependencies.load(text, unix_now()); !loaded)
          return std::unexpected(std::move(loaded.error()));
        return dependencies.size();
      },
      .loads_in_background = false,
      .version = [&dependencies] { return dependencies.version(); },
      .save =
          [&dependencies] {
            return [octets = dependencies.save()] {
              return SavedFile::Octets(octets.begin(), octets.end());
            };
          },
  };
}

}  // namespace

void SavedFile::open(const std::string& state_dir) {
  move_to(state_dir);
  if (is_read_ || file_.empty() || content_.limit() == 0) return;
  is_read_ = true;
  if (!content_.loads_in_background) return load();
  run([this] { load(); });
}

void SavedFile::move_to(const std::string& state_dir) {
  if (state_file(state_dir, content_.name) == file_) return;
  if (work_.joinable()) work_.join();
  if (!file_.empty()) is_saved_ = false;
  file_ = state_file(state_dir, content_.name);
}

void SavedFile::tick(std::chrono::steady_clock::time_point now) {
  if (busy_ || now < saved_at_ + kSavePause || !is_due()) return;
  saved_at_ = now;
  run(begin_save());
}

void SavedFile::close() {
  if (work_.joinable()) work_.join();
  if (is_due()) begin_save()();
  file_.clear();
}

void SavedFile::run(std::function<void()> work) {
  busy_ = true;
  work_ = std::jthread([this, work = std::move(work)] {
    work();
    busy_ = false;
  });
}

void SavedFile::load() {
  const auto block = read_octets(file_, content_.limit());
  if (!block) return log_.warn(block.error().message);
  if (!*block || (*block)->empty()) return;
  const auto loaded = content_.load(**block);
  if (!loaded) return set_aside(loaded.error().message);
  log_.info(content_.restored, {{content_.unit, std::to_string(*loaded)}});
}

void SavedFile::set_aside(const std::string& reason) {
  const std::string aside = file_ + ".bad-" + std::to_string(unix_now());
  const bool moved = std::rename(file_.c_str(), aside.c_str()) == 0;
  log_.warn(content_.unusable,
            {{"file", std::string_view(file_)},
             {"reason", std::string_view(reason)},
             {"aside", moved ? std::string_view(aside) : std::string_view("not moved")}});
}

bool SavedFile::is_due() const {
  return !file_.empty() && content_.limit() != 0 &&
         (!content_.version || !is_saved_ || content_.version() != version_);
}

std::function<void()> SavedFile::begin_save() {
  is_read_ = true;  // what is in the file is in memory, too
  if (content_.version) version_ = content_.version();
  return [this, octets = content_.save()] {
    const auto written = write_durably(file_, octets());
    is_saved_ = written.has_value();
    if (!written)
      log_.warn(content_.unsaved, {{"reason", std::string_view(written.error().message)}});
  };
}

KeptState::KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed,
                     std::shared_ptr<ForwardShared> forwarding, Dependencies& dependencies,
                     Log& log)
    : config_(config),
      registry_(registry),
      feed_(feed),
      log_(log),
      cache_(saved_content(std::move(forwarding)), log),
      dependencies_(saved_content(dependencies), log),
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
  dependencies_.open(path());
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

void KeptState::open_cache() { cache_.open(path()); }

void KeptState::open_registry() { saved_.open(path(), saved_sources(config_)); }

void KeptState::follow() {
  const std::string before = path();
  take(std::chrono::milliseconds(0));
  const std::string now = path();
  cache_.move_to(now);
  dependencies_.open(now);
  saved_.reconfigure(now, saved_sources(config_));
  if (now != before || !vip_trouble_.empty()) choose_vip_allocator();
}

void KeptState::tick(std::chrono::steady_clock::time_point now) {
  cache_.tick(now);
  dependencies_.tick(now);
  saved_.tick(now);
}

void KeptState::close() {
  cache_.close();
  dependencies_.close();
  saved_.close();
}

}  // namespace meshdns::dnsd
