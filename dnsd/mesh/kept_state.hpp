// SPDX-License-Identifier: Apache-2.0
// All that is kept in state_dir over restarts: the registry, the cache, and the virtual addresses.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/cache_keeper.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "dnsd/mesh/state_keeper.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

// Control thread.
class KeptState {
 public:
  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  KeptState(const Config& config, registry::Registry& registry, RegistryFeed& feed, Log& log);

  // Takes the directory of the configuration.  An earlier process may be about to end: waits a
  // while for it.
  void take();
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
  std::string path() const { return directory_.path(); }
  // Why the directory of the configuration is not used; empty if it is.
  const std::string& trouble() const { return directory_.trouble(); }
  // Why persistent VIPs are off; empty if they are not, or not wanted.
  const std::string& vip_trouble() const { return vip_trouble_; }
  StateStatus status() const { return saved_.status(); }

 private:
  const Config& config_;
  registry::Registry& registry_;
  RegistryFeed& feed_;
  Log& log_;
  CacheKeeper cache_;
  StateDirectory directory_;
  StateKeeper saved_;
  std::string vip_trouble_;
};

}  // namespace meshdns::dnsd
