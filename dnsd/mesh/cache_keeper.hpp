// SPDX-License-Identifier: Apache-2.0
// Keeps the cache over restarts, in STATE_DIR/cache: read in the background after the start, so
// that nobody waits for it, written from time to time and at the end.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "dnsd/log/log.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// The control thread.
class CacheKeeper {
 public:
  // Time between two saves: a crash loses at most the answers of this time.
  static constexpr std::chrono::minutes kSavePause{5};

  // REQUIRES: `log` outlives it.
  explicit CacheKeeper(Log& log) : log_(log) {}

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

}  // namespace meshdns::dnsd
