// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/admin_address.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

// The path without links and detours.  The last name stays: bind(2) does not follow a link there.
std::filesystem::path place_of(const UnixAddress& address) {
  const std::filesystem::path path(address.path);
  std::error_code error;
  const auto directory = std::filesystem::weakly_canonical(path.parent_path(), error);
  return error ? path.lexically_normal() : directory / path.filename();
}

// [::] stands for both address families.
bool is_within(const IpAddress& ip, const IpAddress& wildcard) {
  return wildcard.is_unspecified() && (wildcard.is_v6() || ip.is_v4());
}

bool are_of_one_interface(const SocketAddress& a, const SocketAddress& b) {
  return a.zone == b.zone || a.zone.empty() || b.zone.empty();
}

const char* name_of_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  return S_ISREG(mode) ? "a file" : "no socket";
}

}  // namespace

std::string to_string(const AdminAddress& address) {
  if (const auto* local = std::get_if<UnixAddress>(&address))
    return std::string(kUnixScheme) + local->path;
  return std::get<SocketAddress>(address).to_string();
}

Result<std::string> parse_path_of_scheme(std::string_view text, std::string_view example,
                                         std::size_t max_length) {
  const std::string_view path = text.substr(text.find(':') + 1);
  if (!path.starts_with('/') || path.ends_with('/') || path.find('\0') != std::string_view::npos)
    return fail(in_quotes(text) + " is not an absolute path; write " + std::string(example));
  if (path.size() > max_length)
    return fail(in_quotes(text) + " is longer than " + std::to_string(max_length) +
                " bytes, the maximum for the path of a socket");
  return std::string(path);
}

Result<AdminAddress> parse_admin_address(std::string_view text) {
  if (!text.starts_with(kUnixScheme)) {
    const auto address = parse_socket_address(text);
    if (!address) return std::unexpected(address.error());
    return *address;
  }
  auto path = parse_path_of_scheme(text, "unix:/run/meshdns/admin.sock");
  if (!path) return std::unexpected(path.error());
  return UnixAddress{*std::move(path)};
}

bool need_one_place(const AdminAddress& a, const AdminAddress& b) {
  if (a.index() != b.index()) return false;
  if (const auto* path = std::get_if<UnixAddress>(&a))
    return place_of(*path) == place_of(std::get<UnixAddress>(b));
  const auto& one = std::get<SocketAddress>(a);
  const auto& other = std::get<SocketAddress>(b);
  if (one.port != other.port || one.port == 0) return false;
  if (one.ip == other.ip) return are_of_one_interface(one, other);
  return is_within(one.ip, other.ip) || is_within(other.ip, one.ip);
}

std::string obstacle_at(const UnixAddress& address) {
  struct stat status{};
  if (::lstat(address.path.c_str(), &status) == 0)
    return S_ISSOCK(status.st_mode) ? "" : std::string("it is ") + name_of_kind(status.st_mode);
  if (errno != ENOENT) return std::strerror(errno);
  const std::string directory = std::filesystem::path(address.path).parent_path();
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return "";
  return directory + ": " + std::strerror(errno);
}

}  // namespace meshdns::dnsd
