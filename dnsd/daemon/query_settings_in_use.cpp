// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_settings_in_use.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "resolver/forward/random_pool.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kPoll{500};

}  // namespace

void LocalNamesInUse::read(const Config& config) {
  version_ = FileVersion::of(config.hosts.file);
  read_hosts(config.hosts.file);
  const auto names =
      std::make_shared<const LocalNames>(hosts_, config.overrides, config.dns64.prefix);
  names_ = names->empty() ? nullptr : names;
}

void LocalNamesInUse::watch(uv_loop_t* loop, const Config& config,
                            std::function<void()> on_change) {
  poll_.close();
  if (config.hosts.file.empty()) return;
  auto read_again = [this, &config, on_change = std::move(on_change)] {
    read(config);
    on_change();
  };
  start_or_log(poll_, loop, config.hosts.file, kPoll, version_, std::move(read_again), log_);
}

void LocalNamesInUse::read_hosts(const std::string& path) {
  if (path.empty()) {
    hosts_ = {};
    return;
  }
  auto hosts = read_hosts_file(path);
  if (!hosts) {
    log_.warn("cannot read the hosts file", {{"reason", std::string_view(hosts.error().message)}});
    return;
  }
  if (hosts->skipped > 0)
    log_.warn("ignored invalid lines of the hosts file",
              {{"file", std::string_view(path)},
               {"lines", std::to_string(hosts->skipped)},
               {"first", std::to_string(hosts->problems.front().line)},
               {"reason", std::string_view(hosts->problems.front().message)}});
  hosts_ = *std::move(hosts);
}

namespace {

CookieSecret random_secret() {
  CookieSecret secret;
  RandomPool().fill(secret.data(), secret.size());
  return secret;
}

}  // namespace

CookieSecretsInUse::CookieSecretsInUse(Log& log, Time now)
    : log_(log), secrets_{random_secret(), std::nullopt}, renewed_at_(now) {}

void CookieSecretsInUse::follow(const std::string& file, Time now) {
  if (file.empty()) {
    if (is_from_file_) renew(now);
    is_from_file_ = false;
    return;
  }
  const auto read = read_cookie_secrets(file);
  if (!read) {
    log_.error("cannot use server.cookies.secret_file",
               {{"reason", std::string_view(read.error().message)}});
    return;
  }
  secrets_ = *read;
  is_from_file_ = true;
}

bool CookieSecretsInUse::tick(Time now) {
  if (is_from_file_ || now < renewed_at_ + kLifetime) return false;
  renew(now);
  return true;
}

// Cookies of the current secret stay valid until clients have asked again.
void CookieSecretsInUse::renew(Time now) {
  secrets_ = {random_secret(), secrets_.current};
  renewed_at_ = now;
}

void QuerySettingsInUse::read_files() {
  local_names_.read(config_);
  cookie_secrets_.follow(config_.server.cookies.secret_file, std::chrono::steady_clock::now());
}

void QuerySettingsInUse::renew() {
  settings_ = QuerySettings::from(config_);
  settings_.local = local_names_.names();
  settings_.registry_only = std::make_shared<const RegistryOnly>(config_.upstream, link_zones_);
  settings_.cookie_secrets = cookie_secrets_.secrets();
  settings_.past = past_;
}

bool QuerySettingsInUse::use_links(const std::set<std::string>& zones) {
  if (link_zones_ == zones) return false;
  link_zones_ = zones;
  return true;
}

void QuerySettingsInUse::watch(uv_loop_t* loop, std::function<void()> on_change) {
  local_names_.watch(loop, config_, std::move(on_change));
}

}  // namespace meshdns::dnsd
