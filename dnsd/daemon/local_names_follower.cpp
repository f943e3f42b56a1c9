// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/local_names_follower.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kPoll{500};

}  // namespace

void LocalNamesFollower::read(const Config& config) {
  version_ = FileVersion::of(config.hosts.file);
  read_hosts(config.hosts.file);
  const auto names =
      std::make_shared<const LocalNames>(hosts_, config.overrides, config.dns64.prefix);
  names_ = names->empty() ? nullptr : names;
}

void LocalNamesFollower::watch(uv_loop_t* loop, const Config& config,
                               std::function<void()> on_change) {
  poll_.close();
  if (config.hosts.file.empty()) return;
  auto read_again = [this, &config, on_change = std::move(on_change)] {
    read(config);
    on_change();
  };
  start_or_log(poll_, loop, config.hosts.file, kPoll, version_, std::move(read_again), log_);
}

void LocalNamesFollower::read_hosts(const std::string& path) {
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

}  // namespace meshdns::dnsd
