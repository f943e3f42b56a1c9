// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace meshdns::dnsd {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::unexpected<Error> fail_with_errno(const std::string& path) {
  return fail(path + ": " + std::strerror(errno));
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_size) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) return fail_with_errno(path);
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return fail_with_errno(path);
  // Whoever may be at its other end, nobody waits for them.
  if (S_ISFIFO(status.st_mode)) return fail(path + ": is a pipe, not a file");
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_with_errno(path);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > max_size)
      return fail(path + ": larger than " + std::to_string(max_size >> 20) + " MiB");
  }
}

}  // namespace meshdns::dnsd
