// SPDX-License-Identifier: Apache-2.0
// Reloads of the configuration: when it is read again, and whether it is taken over.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/daemon/file_poll.hpp"
#include "dnsd/log/log.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {

// Control thread.
class ConfigReloader {
 public:
  // Without a name, there is no configuration to read again.
  ConfigReloader(ConfigFiles files, Log& log) : files_(std::move(files)), log_(log) {}

  // Calls `on_due` once the file has stopped changing.  Calls that come together are one reload.
  void reload_soon(uv_loop_t* loop, std::function<void()> on_due);
  // The same, unless the file is missing or empty, or has the text of the last reload or of
  // remember_text().
  void reload_changed_soon(uv_loop_t* loop, std::function<void()> on_due);
  void remember_text() { last_text_ = text_hash(); }
  // Calls reload_changed_soon() whenever the file has changed.  Without a file it does nothing.
  void watch(uv_loop_t* loop, std::function<void()> on_due);
  void stop_watching() { file_.close(); }
  void stop();

  // Reads the file and logs its findings; nullopt if it is not valid, or there is none.
  std::optional<Config> read();

  // The path of the file; empty: none.
  const std::string& path() const { return files_.path; }
  // For messages.
  const std::string& name() const { return files_.name(); }
  const ReloadStatus& status() const { return status_; }

 private:
  void look_soon(uv_loop_t* loop, std::function<void()> on_due);
  void wait_for_steady_text();
  std::uint64_t text_hash() const;

  const ConfigFiles files_;
  Log& log_;
  FilePoll file_;
  loop::Timer timer_;
  std::function<void()> on_due_;
  std::string text_;  // as it was at the last look
  int looks_ = 0;
  bool is_asked_ = false;        // reload even if the text is the last one
  std::uint64_t last_text_ = 0;  // hash
  ReloadStatus status_;
};

}  // namespace meshdns::dnsd
