// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/listening_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "dnsd/net/port_owner.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {
namespace {

constexpr mode_t kUnixMode = 0660;

unsigned long inode_of(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// Returns whether a process listens there; one that was killed leaves its socket behind.
bool is_abandoned(const UnixAddress& address) {
  if (inode_of(address.path) == 0) return false;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const sockaddr_un name = *unix_socket_name(address.path);
  const bool refused = ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
                       errno == ECONNREFUSED;
  ::close(fd);
  return refused;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

int family_of(const AdminAddress& address) {
  const auto* ip = std::get_if<SocketAddress>(&address);
  if (ip == nullptr) return AF_UNIX;
  return ip->ip.is_v4() ? AF_INET : AF_INET6;
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      address_(std::move(other.address_)),
      inode_(std::exchange(other.inode_, 0)) {}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
  if (inode_ == 0) return;
  const std::string& path = std::get<UnixAddress>(address_).path;
  if (inode_of(path) == inode_) ::unlink(path.c_str());
}

Result<ListeningSocket> ListeningSocket::open(const AdminAddress& address, int backlog) {
  const int fd = ::socket(family_of(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ListeningSocket opened(fd, address);
  if (fd < 0) return opened.refuse("open a socket for");
  const auto bound = std::visit([&](const auto& a) { return opened.bind_to(a); }, address);
  if (!bound) return std::unexpected(bound.error());
  if (::listen(fd, backlog) != 0) return opened.refuse("listen on");
  if (auto* ip = std::get_if<SocketAddress>(&opened.address_)) ip->port = port_of(fd);
  return opened;
}

Result<void> ListeningSocket::bind_to(const SocketAddress& address) {
  sockaddr_storage name{};
  const auto length = address.to_sockaddr(name);
  if (!length) return std::unexpected(length.error());
  const int on = 1;
  ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // As for server.listen: [::] stands for both families.
  const int v6_only = address.ip.is_unspecified() ? 0 : 1;
  if (address.ip.is_v6()) ::setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&name), *length) != 0) return refuse("bind");
  return {};
}

Result<void> ListeningSocket::bind_to(const UnixAddress& address) {
  if (is_abandoned(address)) ::unlink(address.path.c_str());
  const sockaddr_un name = *unix_socket_name(address.path);
  // The descriptor's mode, less the umask, becomes that of the file: nobody else can connect in the
  // moment before chmod().
  ::fchmod(fd_, kUnixMode);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return refuse("bind");
  inode_ = inode_of(address.path);
  ::chmod(address.path.c_str(), kUnixMode);
  return {};
}

std::unexpected<Error> ListeningSocket::refuse(const char* what) const {
  const int error = errno;
  std::string message =
      "cannot " + std::string(what) + " " + to_string(address_) + ": " + std::strerror(error);
  const auto* ip = std::get_if<SocketAddress>(&address_);
  if (error == EADDRINUSE && ip != nullptr) message += "; " + describe_owner(*ip, Protocol::Tcp);
  return fail(std::move(message));
}

}  // namespace meshdns::dnsd
