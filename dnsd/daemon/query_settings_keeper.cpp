// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_settings_keeper.hpp"

#include <utility>

namespace meshdns::dnsd {

void QuerySettingsKeeper::read_files() {
  local_names_.read(config_);
  cookie_secrets_.follow(config_.server.cookies.secret_file, std::chrono::steady_clock::now());
}

void QuerySettingsKeeper::renew() {
  settings_ = QuerySettings::from(config_);
  settings_.local = local_names_.names();
  settings_.cookie_secrets = cookie_secrets_.secrets();
}

void QuerySettingsKeeper::watch(uv_loop_t* loop, std::function<void()> on_change) {
  local_names_.watch(loop, config_, std::move(on_change));
}

}  // namespace meshdns::dnsd
