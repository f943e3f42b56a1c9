// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/state_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kPause{20};

std::unexpected<Error> refuse(const std::string& directory, const std::string& why) {
  return fail("state_dir: " + directory + ": " + why);
}

// Creates the directory if only the last part of its path is missing.
Result<void> create_if_missing(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  const int error = errno;
  if (::access(directory.c_str(), F_OK) == 0 || errno != ENOENT) return {};
  return refuse(directory, std::string("does not exist and cannot be created: ") +
                               std::strerror(error) + "; create it");
}

// Others could put files of theirs in place of ours.
Result<void> check_directory(const std::string& directory, int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return refuse(directory, std::strerror(errno));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return refuse(directory, "belongs to another user (" + std::to_string(status.st_uid) +
                                 "); give it to the daemon's user");
  if ((status.st_mode & S_IWOTH) != 0)
    return refuse(directory, "other users can write to it; run chmod o-w");
  return {};
}

// " (process 123)", as far as the holder has written it.
std::string holder(int fd) {
  std::array<char, 16> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::string pid;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) pid += text[i];
  return pid.empty() ? "" : " (process " + pid + ")";
}

}  // namespace

Result<StateLock> StateLock::take(const std::string& directory, std::chrono::milliseconds wait) {
  if (auto there = create_if_missing(directory); !there) return std::unexpected(there.error());
  // The directory itself may be a link, as systemd's StateDirectory= makes them.
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return refuse(directory, std::strerror(errno));
  if (auto good = check_directory(directory, opened.get()); !good)
    return std::unexpected(good.error());
  FileDescriptor fd(::openat(opened.get(), "lock",
                             O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                             0600));
  if (!fd) return refuse(directory + "/lock", std::strerror(errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return refuse(directory + "/lock", "is not a regular file; remove it");
  const auto until = std::chrono::steady_clock::now() + wait;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return refuse(directory, std::strerror(errno));
    if (std::chrono::steady_clock::now() >= until)
      return refuse(directory, "another process is using it" + holder(fd.get()) +
                                   "; give each process its own directory");
    std::this_thread::sleep_for(kPause);
  }
  // For the message of others only.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) == 0) (void)!::pwrite(fd.get(), pid.data(), pid.size(), 0);
  return StateLock(directory, std::move(fd));
}

}  // namespace meshdns::dnsd
