// SPDX-License-Identifier: Apache-2.0
// state_dir: whether this process may use it, and what is kept in it.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The path of `name` in `state_dir`; empty where nothing is kept.
inline std::string state_file(const std::string& state_dir, std::string_view name) {
  return state_dir.empty() ? std::string() : state_dir + "/" + std::string(name);
}

// Seconds since 1970, by which the files say how old they are.
inline std::int64_t unix_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

// Keeps a second process out of `state_dir`: two that write the same files would lose each other's
// virtual addresses.  Holds a lock on STATE_DIR/lock (flock(2)), which ends with the process,
// however that ends.  Control thread.
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
