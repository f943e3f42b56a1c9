// SPDX-License-Identifier: Apache-2.0
// The settings of queries: the configuration's, with the local names and the cookie secrets that it
// names files for.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>

#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/cookie_secret_keeper.hpp"
#include "dnsd/daemon/local_names_follower.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// Control thread.
class QuerySettingsKeeper {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: both outlive it.  `config` may change; each call uses it as it is then.
  QuerySettingsKeeper(const Config& config, Log& log, Time now)
      : config_(config), cookie_secrets_(log, now), local_names_(log) {}

  // Reads the hosts file and the file of cookie secrets, for the next renew().
  void read_files();
  // Makes the settings anew.
  void renew();
  // Calls `on_change` when the hosts file has changed and was read again.
  void watch(uv_loop_t* loop, std::function<void()> on_change);
  // Call every second or so.  True: the secrets are others now, and renew() is due.
  bool tick(Time now) { return cookie_secrets_.tick(now); }
  void stop() { local_names_.stop(); }

  // As of the last renew().
  const QuerySettings& settings() const { return settings_; }
  // Null: there are none.
  const std::shared_ptr<const LocalNames>& local_names() const { return local_names_.names(); }

 private:
  const Config& config_;
  CookieSecretKeeper cookie_secrets_;
  LocalNamesFollower local_names_;
  QuerySettings settings_;
};

}  // namespace meshdns::dnsd
