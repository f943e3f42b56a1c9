// SPDX-License-Identifier: Apache-2.0
// The settings of queries: the configuration's, with the local names and the cookie secrets that it
// names files for.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/cookie_secrets.hpp"
#include "dnsd/config/hosts_file.hpp"
#include "dnsd/daemon/file_poll.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The names of the hosts file and of the overrides, through changes of both.  Control thread.
class LocalNamesInUse {
 public:
  explicit LocalNamesInUse(Log& log) : log_(log) {}

  // Reads the hosts file.  One that cannot be read leaves what was known of it.
  void read(const Config& config);
  // Reads the file again when it has changed, and calls `on_change` then.  Stops watching the
  // file before.  REQUIRES: `config` lives, and may change only with another call.
  void watch(uv_loop_t* loop, const Config& config, std::function<void()> on_change);
  void stop() { poll_.close(); }

  // Null: there are none.
  const std::shared_ptr<const LocalNames>& names() const { return names_; }

 private:
  void read_hosts(const std::string& path);

  Log& log_;
  FilePoll poll_;
  FileVersion version_;  // that was read
  HostsFile hosts_;
  std::shared_ptr<const LocalNames> names_;
};

// The secrets of server cookies: those of a file, or random ones, another one every day.  Control
// thread.
class CookieSecretsInUse {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Time for which a random secret is the current one; it is accepted for the same time afterwards.
  static constexpr std::chrono::hours kLifetime{24};

  // Has random secrets.  REQUIRES: `log` outlives it.
  CookieSecretsInUse(Log& log, Time now);

  // Takes the secrets of `file`, read anew; empty = random ones.  An error in the file is
  // logged and leaves the secrets as they are.
  void follow(const std::string& file, Time now);
  // Call every second or so.  True: the secrets are others now.
  bool tick(Time now);

  const CookieSecrets& secrets() const { return secrets_; }

 private:
  void renew(Time now);

  Log& log_;
  CookieSecrets secrets_;
  bool is_from_file_ = false;
  Time renewed_at_;  // only while they are random
};

// Control thread.
class QuerySettingsInUse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: both outlive it.  `config` may change; each call uses it as it is then.
  QuerySettingsInUse(const Config& config, Log& log, Time now)
      : config_(config), cookie_secrets_(log, now), local_names_(log) {}

  // For the next renew(): see QuerySettings.
  void use(DescribePast past) { past_ = std::move(past); }
  // Reads the hosts file and the file of cookie secrets, for the next renew().
  void read_files();
  // Makes the settings anew.
  void renew();
  // For the next renew(): the zones of this machine's links.  True: they are others now, and
  // renew() is due.
  bool use_links(const std::set<std::string>& zones);
  // Calls `on_change` when the hosts file has changed and was read again.
  void watch(uv_loop_t* loop, std::function<void()> on_change);
  // Call every second or so.  True: the secrets are others now, and renew() is due.
  bool tick(Time now) { return cookie_secrets_.tick(now); }
  void stop() { local_names_.stop(); }

  // As of the last renew().
  const QuerySettings& settings() const { return settings_; }

 private:
  const Config& config_;
  CookieSecretsInUse cookie_secrets_;
  LocalNamesInUse local_names_;
  DescribePast past_;
  std::set<std::string> link_zones_;
  QuerySettings settings_;
};

}  // namespace meshdns::dnsd
