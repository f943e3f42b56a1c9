// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/state_directory.hpp"

#include <utility>

namespace meshdns::dnsd {

void StateDirectory::take(const std::string& wanted, std::chrono::milliseconds wait) {
  if (path() == wanted) {
    trouble_.clear();
    return;
  }
  lock_.reset();
  if (wanted.empty()) return trouble_.clear();
  auto taken = StateLock::take(wanted, wait);
  if (!taken) {
    if (trouble_ != taken.error().message)
      log_.error("cannot use state_dir; nothing is saved until this is solved",
                 {{"reason", std::string_view(taken.error().message)}});
    trouble_ = std::move(taken.error().message);
    return;
  }
  if (!trouble_.empty())
    log_.info("now using state_dir", {{"state_dir", std::string_view(wanted)}});
  lock_ = *std::move(taken);
  trouble_.clear();
}

}  // namespace meshdns::dnsd
