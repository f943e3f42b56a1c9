// SPDX-License-Identifier: Apache-2.0
// Looks at a file at intervals and tells when it has changed, appeared or gone.
#pragma once

#include <chrono>
#include <string>

#include "dnsd/log/log.hpp"
#include "loop/handle.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The loop's thread only.
//
// Each start() has a libuv handle of its own.  libuv 1.44 ends the process with an assertion when
// one handle is stopped and started again while the thread pool still looks at the file.
class FilePoll : public loop::Handle<uv_fs_poll_t, void()> {
 public:
  // Ends what was watched before.  An Error says why the file is not watched.
  Result<void> start(uv_loop_t* loop, const std::string& path, std::chrono::milliseconds interval,
                     Callback on_change);
};

// Starts `poll`; logs the reason where that fails.
void start_or_log(FilePoll& poll, uv_loop_t* loop, const std::string& path,
                  std::chrono::milliseconds interval, FilePoll::Callback on_change, Log& log);

}  // namespace meshdns::dnsd
