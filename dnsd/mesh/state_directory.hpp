// SPDX-License-Identifier: Apache-2.0
// state_dir: whether this process may use it, and what is kept in it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "dnsd/log/log.hpp"
#include "dnsd/mesh/state_lock.hpp"

namespace meshdns::dnsd {

// Control thread.
class StateDirectory {
 public:
  explicit StateDirectory(Log& log) : log_(log) {}

  // Uses `wanted` from now on; empty: none.  An earlier process may still use it: then this is to
  // be called again every second, and nothing is read or written meanwhile.  Blocks for `wait`.
  void take(const std::string& wanted, std::chrono::milliseconds wait);

  // Empty: nothing is kept.
  std::string path() const { return lock_ ? lock_->directory() : std::string(); }
  // Why the directory that is wanted is not used; empty if it is.
  const std::string& trouble() const { return trouble_; }

 private:
  Log& log_;
  std::optional<StateLock> lock_;
  std::string trouble_;
};

}  // namespace meshdns::dnsd
