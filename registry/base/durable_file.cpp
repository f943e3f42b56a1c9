// SPDX-License-Identifier: Apache-2.0
#include "registry/base/durable_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

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

std::uint32_t checksum(std::span<const std::uint8_t> octets, std::uint32_t before) {
  if (octets.empty()) return before;  // for a null pointer zlib begins anew
  return static_cast<std::uint32_t>(crc32_z(before, octets.data(), octets.size()));
}

std::uint32_t checksum(std::string_view text, std::uint32_t before) {
  return checksum({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, before);
}

namespace {

std::unexpected<Error> fail_with_errno(const std::string& what) {
  return fail(what + ": " + std::strerror(errno));
}

// The rename itself must survive, too.
void sync_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.find_last_of('/') + 1);
  const FileDescriptor fd(
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) ::fsync(fd.get());
}

}  // namespace

Result<DurableFile> DurableFile::create(std::string path) {
  const std::string temporary = path + ".new";
  // The file is always a new one: nothing is written to a file, link or FIFO that an earlier run or
  // somebody else has left there.
  ::unlink(temporary.c_str());
  FileDescriptor fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail_with_errno("cannot write " + temporary);
  return DurableFile(std::move(path), std::move(fd));
}

// A piece of a file may be what fills the disk.
DurableFile::~DurableFile() {
  if (fd_) ::unlink(temporary().c_str());
}

Result<void> DurableFile::write(std::span<const std::uint8_t> octets) {
  if (!write_all(fd_.get(), octets)) return fail_with_errno("cannot write " + temporary());
  return {};
}

Result<void> DurableFile::commit() {
  if (::fsync(fd_.get()) != 0) return fail_with_errno("cannot write " + temporary());
  if (std::rename(temporary().c_str(), path_.c_str()) != 0)
    return fail_with_errno("cannot rename " + temporary());
  fd_ = FileDescriptor();
  sync_directory_of(path_);
  return {};
}

Result<void> write_durably(const std::string& path, std::span<const std::uint8_t> octets) {
  auto file = DurableFile::create(path);
  if (!file) return std::unexpected(file.error());
  if (auto written = file->write(octets); !written) return written;
  return file->commit();
}

Result<FileDescriptor> open_regular(const std::string& path) {
  FileDescriptor fd(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd && errno == ENOENT) return fd;
  if (!fd && errno == ELOOP) return fail("cannot read " + path + ": it is a symbolic link");
  if (!fd) return fail_with_errno("cannot read " + path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_with_errno("cannot read " + path);
  if (!S_ISREG(status.st_mode)) return fail("cannot read " + path + ": it is not a regular file");
  return fd;
}

Result<std::optional<std::vector<std::uint8_t>>> read_octets(const std::string& path,
                                                             std::size_t max_size) {
  const auto opened = open_regular(path);
  if (!opened) return std::unexpected(opened.error());
  const FileDescriptor& fd = *opened;
  if (!fd) return std::nullopt;
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_with_errno("cannot read " + path);
  if (static_cast<std::uint64_t>(status.st_size) > max_size)
    return fail(path + ": the file is larger than " + std::to_string(max_size) + " octets");
  std::vector<std::uint8_t> octets(static_cast<std::size_t>(status.st_size));
  const auto filled = read_fully(fd.get(), octets);
  if (!filled) return fail(path + ": " + filled.error().message);
  octets.resize(*filled);
  return octets;
}

}  // namespace meshdns
