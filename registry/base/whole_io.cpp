// SPDX-License-Identifier: Apache-2.0
#include "registry/base/whole_io.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace meshdns {

FileDescriptor open_for_reading(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

bool write_all(int fd, std::span<const std::uint8_t> octets) {
  while (!octets.empty()) {
    const ssize_t written = ::write(fd, octets.data(), octets.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    octets = octets.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> octets) {
  std::size_t filled = 0;
  while (filled < octets.size()) {
    const ssize_t got = ::read(fd, octets.data() + filled, octets.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(std::string("cannot read: ") + std::strerror(errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

Result<std::string> read_to_end(int fd, std::size_t limit) {
  std::string text;
  std::array<std::uint8_t, 65'536> piece;
  for (;;) {
    const auto count = read_fully(fd, piece);
    if (!count) return std::unexpected(count.error());
    text.append(reinterpret_cast<const char*>(piece.data()), *count);
    if (text.size() > limit || *count < piece.size()) return text;
  }
}

}  // namespace meshdns
