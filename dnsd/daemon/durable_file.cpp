#include "dnsd/daemon/durable_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "dnsd/net/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

std::unexpected<Error> fail_with_errno(const std::string& what) {
  return fail(what + ": " + std::strerror(errno));
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

// The rename itself must survive, too.
void sync_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.find_last_of('/') + 1);
  const FileDescriptor fd(
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) ::fsync(fd.get());
}

}  // namespace

Result<void> write_durably(const std::string& path, std::span<const std::uint8_t> octets) {
  const std::string temporary = path + ".new";
  {
    const FileDescriptor fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) return fail_with_errno("cannot write " + temporary);
    if (!write_all(fd.get(), octets) || ::fsync(fd.get()) != 0)
      return fail_with_errno("cannot write " + temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return fail_with_errno("cannot rename " + temporary);
  sync_directory_of(path);
  return {};
}

Result<std::vector<std::uint8_t>> read_octets(const std::string& path, std::size_t max_size) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return std::vector<std::uint8_t>();
    return fail_with_errno("cannot read " + path);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_with_errno("cannot read " + path);
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > max_size)
    return fail(path + ": not a file of a size that is ours");
  std::vector<std::uint8_t> octets(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < octets.size()) {
    const ssize_t got = ::read(fd.get(), octets.data() + filled, octets.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_with_errno("cannot read " + path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  octets.resize(filled);
  return octets;
}

}  // namespace meshdns::dnsd
