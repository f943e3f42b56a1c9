// SPDX-License-Identifier: Apache-2.0
// Keeps the registry, the cache, the record of dependencies and the virtual addresses in state_dir
// over restarts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/dependencies.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/saved_registry.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"
#include "registry/tables/vip_allocator.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// Keeps something over restarts that is read and written as a whole, in a file of the state
// directory: read once, written from time to time and at the end.  Control thread.
class SavedFile {
 public:
  // Time between two saves: a crash loses at most what has come in this time.
  static constexpr std::chrono::minutes kSavePause{5};

  using Octets = std::vector<std::uint8_t>;
  // The thing that is kept.  Functions without another thread in their comment are called by the
  // control thread.
  struct Content {
    std::string_view name;  // of the file
    // Messages of the log, and what `load` counts.
    std::string_view restored;
    std::string_view unit;
    std::string_view unusable;
    std::string_view unsaved;
    // The size that a file may have; 0: it is not to be kept now.  Any thread.
    std::function<std::size_t()> limit;
    // Adds what a file has, and returns how much that is.  An Error: the file is damaged.
    std::function<Result<std::size_t>(const Octets& octets)> load;
    bool loads_in_background = false;  // so that nobody waits for it
    // Another number after each change; none: it always has changed.
    std::function<std::uint64_t()> version;
    // Begins a save; the other thread calls what this returns.
    std::function<std::function<Octets()>()> save;
  };

  // REQUIRES: `log`, and all that `content` refers to, outlive it.
  SavedFile(Content content, Log& log) : content_(std::move(content)), log_(log) {}

  // `state_dir` empty: nothing is kept.  The first file is read; where there was one before, that
  // which is in memory takes the place of the next.  A file that is damaged or not ours is set
  // aside and said.
  void open(const std::string& state_dir);
  // As open(), but nothing is read.
  void move_to(const std::string& state_dir);
  // Call every second or so: saves in the background when it is time.
  void tick(std::chrono::steady_clock::time_point now);
  // Saves, and returns when that is done.
  void close();

 private:
  bool is_due() const;
  void load();
  void set_aside(const std::string& reason);
  void run(std::function<void()> work);
  std::function<void()> begin_save();

  const Content content_;
  Log& log_;
  std::string file_;  // empty = none
  bool is_read_ = false;
  std::uint64_t version_ = 0;  // of the last save
  std::atomic<bool> is_saved_{true};
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::atomic<bool> busy_{false};
  std::jthread work_;  // reads or writes while `busy_`; `file_` is constant meanwhile
};

// Control thread.
class KeptState {
 public:
  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed,
            std::shared_ptr<ForwardShared> forwarding, Dependencies& dependencies, Log& log);

  // Uses the directory of the configuration from now on.  An earlier process may be about to end:
  // blocks for `wait`.  If it lives on, follow() is to be called every second, and nothing is read
  // or written meanwhile.  Loads the record of dependencies of an earlier run: whenever that is, as
  // the record is added to what has been counted since the start.
  void take(std::chrono::milliseconds wait = StateLock::kWait);
  // Sets up the allocator of virtual addresses as the configuration and the directory allow.
  void choose_vip_allocator();
  // Loads the cache of an earlier run.
  void open_cache();
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
  SavedFile cache_;
  SavedFile dependencies_;
  std::optional<StateLock> lock_;
  std::string trouble_;
  SavedRegistry saved_;
  std::string vip_trouble_;
};

}  // namespace meshdns::dnsd
