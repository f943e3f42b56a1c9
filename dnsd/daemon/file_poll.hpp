// SPDX-License-Identifier: Apache-2.0
// Looks at a file at intervals and tells when it has changed, appeared or gone.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include "dnsd/log/log.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// A version of a file, as stat(2) tells it.  Files that are missing are equal.  The default differs
// from every file.
class FileVersion {
  auto parts() const { return std::tie(is_known_, device_, inode_, size_, modified_, changed_); }

 public:
  static FileVersion of(const std::string& path);
  friend bool operator==(const FileVersion& a, const FileVersion& b) {
    return a.parts() == b.parts();
  }

 private:
  bool is_known_ = false;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::int64_t size_ = 0;
  std::chrono::nanoseconds modified_{};
  std::chrono::nanoseconds changed_{};
};

// The loop's thread only.
//
// Each start() has a libuv handle of its own.  libuv 1.44 ends the process with an assertion when
// one handle is stopped and started again while the thread pool still looks at the file.
//
// libuv compares with its own first look at the file, some time after the start.  FilePoll looks
// once more after that, and compares with the version that its owner has read.
class FilePoll {
 public:
  using Callback = std::function<void()>;

  // Calls `on_change` when the file differs from `read`, its version before its owner read it.
  // Ends what was watched before.  An Error says why the file is not watched.
  Result<void> start(uv_loop_t* loop, const std::string& path, std::chrono::milliseconds interval,
                     const FileVersion& read, Callback on_change);
  // Nothing is called after this.
  void close();

 private:
  struct Poll : loop::Handle<uv_fs_poll_t, void()> {
    int start(uv_loop_t* loop, const std::string& path, std::chrono::milliseconds interval,
              Callback on_change);
  };

  Poll poll_;
  loop::Timer late_look_;
};

// Starts `poll`; logs the reason where that fails.
void start_or_log(FilePoll& poll, uv_loop_t* loop, const std::string& path,
                  std::chrono::milliseconds interval, const FileVersion& read,
                  FilePoll::Callback on_change, Log& log);

}  // namespace meshdns::dnsd
