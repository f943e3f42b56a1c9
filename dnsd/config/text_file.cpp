// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/text_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "registry/base/whole_io.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::unexpected<Error> fail_with_errno(const std::string& path) {
  return fail(path + ": " + std::strerror(errno));
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_size) {
  const FileDescriptor file = open_for_reading(path);
  if (!file) return fail_with_errno(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail_with_errno(path);
  // A FIFO without a writer looks like an empty file.
  if (S_ISFIFO(status.st_mode)) return fail(path + ": is a pipe, not a file");
  auto text = read_to_end(file.get(), max_size);
  if (!text) return fail_with_errno(path);
  if (text->size() > max_size)
    return fail(path + ": larger than " + std::to_string(max_size >> 20) + " MiB");
  if (text->starts_with(kByteOrderMark)) text->erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace meshdns::dnsd
