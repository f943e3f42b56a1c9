// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/file_poll.hpp"

#include <utility>

namespace meshdns::dnsd {

Result<void> FilePoll::start(uv_loop_t* loop, const std::string& path,
                             std::chrono::milliseconds interval, Callback on_change) {
  stop();
  auto handle = std::make_unique<Handle>();
  handle->on_change = std::move(on_change);
  if (const int error = uv_fs_poll_init(loop, &handle->poll); error != 0)
    return fail("cannot watch " + path + ": " + uv_strerror(error));
  handle_ = handle.release();
  handle_->poll.data = handle_;
  const int error = uv_fs_poll_start(
      &handle_->poll,
      [](uv_fs_poll_t* poll, int, const uv_stat_t*, const uv_stat_t*) {
        static_cast<Handle*>(poll->data)->on_change();
      },
      path.c_str(), static_cast<unsigned>(interval.count()));
  if (error == 0) return {};
  stop();
  return fail("cannot watch " + path + ": " + uv_strerror(error));
}

void FilePoll::stop() {
  if (handle_ == nullptr) return;
  uv_close(reinterpret_cast<uv_handle_t*>(&std::exchange(handle_, nullptr)->poll),
           [](uv_handle_t* closed) { delete static_cast<Handle*>(closed->data); });
}

void start_or_log(FilePoll& poll, uv_loop_t* loop, const std::string& path,
                  std::chrono::milliseconds interval, FilePoll::Callback on_change, Log& log) {
  const auto started = poll.start(loop, path, interval, std::move(on_change));
  if (!started)
    log.error("cannot watch a file; its changes take effect with the next reload",
              {{"reason", std::string_view(started.error().message)}});
}

}  // namespace meshdns::dnsd
