// SPDX-License-Identifier: Apache-2.0
// The names of the hosts file and of the overrides, through changes of both.
#pragma once

#include <functional>
#include <memory>

#include "dnsd/answer/local_names.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/hosts_file.hpp"
#include "dnsd/daemon/file_poll.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// Control thread.
class LocalNamesFollower {
 public:
  explicit LocalNamesFollower(Log& log) : log_(log) {}

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

}  // namespace meshdns::dnsd
