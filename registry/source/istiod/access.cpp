// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/access.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "registry/base/durable_file.hpp"

namespace meshdns::registry::istiod {
namespace {

// Bundles of all public authorities have a quarter of it.
constexpr std::size_t kMaxAccessFile = std::size_t{1} << 20;

Result<std::string> read_text(const std::string& path) {
  const auto refuse = [&](const std::string& why) { return fail(path + ": " + why); };
  const FileDescriptor file = open_for_reading(path);
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0)
    return refuse("cannot be read: " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) return refuse("is not a file");
  auto text = read_to_end(file.get(), kMaxAccessFile);
  if (!text) return refuse("cannot be read: " + text.error().message);
  if (text->size() > kMaxAccessFile) return refuse("is larger than 1 MiB");
  return text;
}

// A token goes into a header, which ends at the first control character.
Result<std::string> read_token(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text;
  text->erase(text->find_last_not_of(" \t\r\n") + 1);
  text->erase(0, text->find_first_not_of(" \t\r\n"));
  if (text->empty()) return fail(path + ": has no token");
  for (const char c : *text)
    if (c <= ' ' || c > '~') return fail(path + ": has characters that no token has");
  return text;
}

// Nothing when there is no such file to read.
Result<void> read_into(const std::string& path, std::string& into,
                       Result<std::string> (*read)(const std::string&)) {
  if (path.empty()) return {};
  auto text = read(path);
  if (!text) return std::unexpected(text.error());
  into = *std::move(text);
  return {};
}

}  // namespace

Result<Access> read_access(const AccessFiles& files) {
  Access access;
  for (const auto& result : {read_into(files.ca, access.ca_pem, read_text),
                             read_into(files.token, access.token, read_token),
                             read_into(files.cert, access.cert_pem, read_text),
                             read_into(files.key, access.key_pem, read_text)})
    if (!result) return std::unexpected(result.error());
  return access;
}

}  // namespace meshdns::registry::istiod
