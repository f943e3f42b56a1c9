// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/file_poll.hpp"

#include <utility>

namespace meshdns::dnsd {

Result<void> FilePoll::start(uv_loop_t* loop, const std::string& path,
                             std::chrono::milliseconds interval, Callback on_change) {
  const auto init = [loop](uv_fs_poll_t* poll) { return uv_fs_poll_init(loop, poll); };
  int error = begin(std::move(on_change), init);
  if (error == 0) {
    const auto changed = [](uv_fs_poll_t* poll, int, const uv_stat_t*, const uv_stat_t*) {
      call(poll);
    };
    error = uv_fs_poll_start(get(), changed, path.c_str(), static_cast<unsigned>(interval.count()));
    if (error == 0) return {};
    close();
  }
  return fail("cannot watch " + path + ": " + uv_strerror(error));
}

void start_or_log(FilePoll& poll, uv_loop_t* loop, const std::string& path,
                  std::chrono::milliseconds interval, FilePoll::Callback on_change, Log& log) {
  const auto started = poll.start(loop, path, interval, std::move(on_change));
  if (!started)
    log.error("cannot watch a file; its changes take effect with the next reload",
              {{"reason", std::string_view(started.error().message)}});
}

}  // namespace meshdns::dnsd
