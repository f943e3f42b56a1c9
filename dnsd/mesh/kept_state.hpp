// SPDX-License-Identifier: Apache-2.0
// All that is kept in state_dir over restarts: the registry, the cache, and the virtual addresses.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/saved_registry.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "registry/registry.hpp"
#include "registry/tables/vip_allocator.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// Keeps the cache over restarts, in STATE_DIR/cache: read in the background after the start, so
// that nobody waits for it, written from time to time and at the end.  Control thread.
class SavedCache {
 public:
  // Time between two saves: a crash loses at most the answers of this time.
  static constexpr std::chrono::minutes kSavePause{5};

  // REQUIRES: `log` outlives it.
  explicit SavedCache(Log& log) : log_(log) {}

  // `state_dir` empty: nothing is kept.  A file that is damaged or not ours is set aside and said.
  void open(const std::string& state_dir, std::shared_ptr<ForwardShared> forwarding);
  // As open(), for a directory that changes while the daemon runs: nothing is read.
  void move_to(const std::string& state_dir);
  // Call every second or so: saves in the background when it is time.
  void tick(std::chrono::steady_clock::time_point now);
  // Saves, and returns when that is done.
  void close();

 private:
  void load();
  void save();

  Log& log_;
  std::string file_;  // empty = none
  std::shared_ptr<ForwardShared> forwarding_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::atomic<bool> busy_{false};
  std::jthread work_;  // reads or writes while `busy_`; `file_` is constant meanwhile
};

// Control thread.
class KeptState {
 public:
  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed, Log& log);

  // Uses the directory of the configuration from now on.  An earlier process may be about to end:
  // blocks for `wait`.  If it lives on, follow() is to be called every second, and nothing is read
  // or written meanwhile.
  void take(std::chrono::milliseconds wait = StateLock::kWait);
  // Sets up the allocator of virtual addresses as the configuration and the directory allow.
  void choose_vip_allocator();
  // Loads the cache of an earlier run.
  void open_cache(std::shared_ptr<ForwardShared> forwarding);
  // Restores the registry of an earlier run.  REQUIRES: no source has been started.
  void open_registry();
  // Uses the directory of the configuration as it is now, without waiting for its other user.
  void follow();
  // Call every second or so: saves in the background.
  void tick(std::chrono::steady_clock::time_point now);
  // Saves, and returns when that is done.
  void close();

  // Empty: nothing is kept.
  std::string path() const { return lock_ ? lock_->directory() : std::string(); }
  // Why the directory of the configuration is not used; empty if it is.
  const std::string& trouble() const { return trouble_; }
  // Why persistent VIPs are off; empty if they are not, or not wanted.
  const std::string& vip_trouble() const { return vip_trouble_; }
  StateStatus status() const { return saved_.status(); }

 private:
  // Null: the registry's own is right.
  std::unique_ptr<registry::VipAllocator> make_vip_allocator();

  const Config& config_;
  registry::Registry& registry_;
  RegistryFeed& feed_;
  Log& log_;
  SavedCache cache_;
  std::optional<StateLock> lock_;
  std::string trouble_;
  SavedRegistry saved_;
  std::string vip_trouble_;
};

}  // namespace meshdns::dnsd
