// SPDX-License-Identifier: Apache-2.0
// Keeps a second process out of `state_dir`: two that write the same files would lose each other's
// virtual addresses.
#pragma once

#include <chrono>
#include <string>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// A lock on STATE_DIR/lock (flock(2)), which ends with the process, however that ends.  Control
// thread.
class StateLock {
 public:
  // Time for which a start waits for the previous process, which may still answer its last queries.
  static constexpr std::chrono::seconds kWait{3};

  // Takes the lock of `directory`; tries again until `wait` has passed.  Creates the directory
  // (mode 0700) if its parent exists.  An Error: another process has it; or there is no such
  // directory, it is another user's, or everybody may write in it. Blocks the thread.
  static Result<StateLock> take(const std::string& directory, std::chrono::milliseconds wait);

  const std::string& directory() const { return directory_; }

 private:
  StateLock(std::string directory, FileDescriptor fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}

  std::string directory_;
  FileDescriptor fd_;
};

}  // namespace meshdns::dnsd
