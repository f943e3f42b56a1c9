// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/file_poll.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {
namespace {

// libuv has looked at the file by then, also on a busy machine.
constexpr std::chrono::milliseconds kLateLook{2'000};

std::chrono::nanoseconds since_epoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

FileVersion FileVersion::of(const std::string& path) {
  FileVersion version;
  version.is_known_ = true;
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return version;
  version.device_ = found.st_dev;
  version.inode_ = found.st_ino;
  version.size_ = found.st_size;
  version.modified_ = since_epoch(found.st_mtim);
  version.changed_ = since_epoch(found.st_ctim);
  return version;
}

Result<void> FilePoll::start(uv_loop_t* loop, const std::string& path,
                             std::chrono::milliseconds interval, const FileVersion& read,
                             Callback on_change) {
  close();
  if (const int error = poll_.start(loop, path, interval, on_change); error != 0)
    return fail("cannot watch " + path + ": " + uv_strerror(error));
  late_look_.open(loop, [path, read, on_change = std::move(on_change)] {
    if (FileVersion::of(path) != read) on_change();
  });
  late_look_.start(std::max(kLateLook, 2 * interval));
  return {};
}

int FilePoll::Poll::start(uv_loop_t* loop, const std::string& path,
                          std::chrono::milliseconds interval, Callback on_change) {
  const auto init = [loop](uv_fs_poll_t* poll) { return uv_fs_poll_init(loop, poll); };
  if (const int error = begin(std::move(on_change), init); error != 0) return error;
  const auto changed = [](uv_fs_poll_t* poll, int, const uv_stat_t*, const uv_stat_t*) {
    call(poll);
  };
  const int error =
      uv_fs_poll_start(get(), changed, path.c_str(), static_cast<unsigned>(interval.count()));
  if (error != 0) close();
  return error;
}

void FilePoll::close() {
  poll_.close();
  late_look_.close();
}

void start_or_log(FilePoll& poll, uv_loop_t* loop, const std::string& path,
                  std::chrono::milliseconds interval, const FileVersion& read,
                  FilePoll::Callback on_change, Log& log) {
  const auto started = poll.start(loop, path, interval, read, std::move(on_change));
  if (!started)
    log.error("cannot watch a file; its changes take effect with the next reload",
              {{"reason", std::string_view(started.error().message)}});
}

}  // namespace meshdns::dnsd
