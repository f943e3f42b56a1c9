// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/line_writer.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kSlice{50};  // how soon stop_waiting() is noticed

bool is_socket(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

LineWriter::LineWriter(int fd) : fd_(fd), is_socket_(is_socket(fd)) {}

void LineWriter::write(std::string_view line) {
  const bool is_written = mid_line_ ? write_all('\n' + std::string(line)) : write_all(line);
  if (!is_written) ++lost_;
  ++handled_;
}

bool LineWriter::write_all(std::string_view text) {
  const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::string_view rest = text; !rest.empty();) {
    const bool writable = wait_writable(deadline);
    const long n = writable ? write_some(rest) : -1;
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
      mid_line_ = !rest.empty();
      continue;
    }
    const bool again = writable && (errno == EAGAIN || errno == EINTR);
    if (!again || !patient_ || std::chrono::steady_clock::now() >= deadline) return false;
  }
  return true;
}

// A pipe that poll() calls writable takes PIPE_BUF octets without blocking, and no line is longer;
// a socket may take less than a line, hence MSG_DONTWAIT.
long LineWriter::write_some(std::string_view rest) const {
  if (is_socket_) return ::send(fd_, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return ::write(fd_, rest.data(), rest.size());
}

bool LineWriter::wait_writable(Deadline deadline) const {
  for (;;) {
    pollfd waited{fd_, POLLOUT, 0};
    const int slice = patient_ ? static_cast<int>(kSlice.count()) : 0;
    const int n = ::poll(&waited, 1, slice);
    if (n > 0) return (waited.revents & POLLOUT) != 0;
    if (n < 0 && errno != EINTR) return false;
    if (!patient_ || std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace meshdns::dnsd
