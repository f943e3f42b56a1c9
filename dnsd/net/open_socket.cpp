// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/open_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace meshdns::dnsd {
namespace {

// Bursts wait here while a worker is busy.  The kernel may allow less.
constexpr int kBufferBytes = 4 << 20;
constexpr int kStreamBufferBytes = 128 << 10;
constexpr std::uint16_t kFirstFreePort = 1024;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// Returns whether there is room enough already: whoever made an inherited socket may have been
// allowed more than we are.  The kernel counts twice what was asked for.
bool has_buffer(int fd, int option) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  return ::getsockopt(fd, SOL_SOCKET, option, &bytes, &size) == 0 && bytes / 2 >= kBufferBytes;
}

void ask_for_buffers(int fd) {
  for (const auto& [forced, plain] :
       {std::pair{SO_RCVBUFFORCE, SO_RCVBUF}, std::pair{SO_SNDBUFFORCE, SO_SNDBUF}}) {
    if (has_buffer(fd, plain)) continue;
    if (::setsockopt(fd, SOL_SOCKET, forced, &kBufferBytes, sizeof kBufferBytes) != 0)
      set_option(fd, SOL_SOCKET, plain, kBufferBytes);
  }
}

// Sets the options that reading and answering rely on, also on sockets that are passed to us.
void prepare_udp(int fd, const SocketAddress& address) {
  ask_for_buffers(fd);
  const bool v6 = address.ip.is_v6();
  // RFC 2181, section 4: the reply comes from the address that was asked.
  if (address.ip.is_unspecified())
    v6 ? set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
       : set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
  // Forged "fragmentation needed" messages must not shrink our packets (RFC 9715).
  set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT);
  if (v6) set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_OMIT);
}

// Accepted connections take it over.
void prepare_tcp(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Limits the kernel's send buffer so that a client that does not read cannot hold megabytes.
  set_option(fd, SOL_SOCKET, SO_SNDBUF, kStreamBufferBytes);
}

OpenError open_error(const SocketAddress& address, Protocol protocol, int error) {
  return {listen_error(address, protocol, error), error == EADDRINUSE};
}

// Returns a bound socket that listens, or errno.
std::expected<FileDescriptor, int> bind_socket(const SocketAddress& address, Protocol protocol,
                                               const sockaddr_storage& name, unsigned name_size,
                                               Sharing sharing) {
  const bool tcp = protocol == Protocol::Tcp;
  FileDescriptor fd(
      ::socket(name.ss_family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return std::unexpected(errno);
  if (sharing == Sharing::WithOurselves) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  // Connections of an earlier run may still be closing; a listening socket is a conflict all the
  // same.
  if (tcp) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // A node-local address may be put on its interface after we start.
  set_option(fd.get(), IPPROTO_IP, IP_FREEBIND, 1);
  if (name.ss_family == AF_INET6)
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, address.ip.is_unspecified() ? 0 : 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), name_size) != 0)
    return std::unexpected(errno);
  if (tcp) {
    prepare_tcp(fd.get());
    if (::listen(fd.get(), kBacklog) != 0) return std::unexpected(errno);
  } else {
    prepare_udp(fd.get(), address);
  }
  if (sharing == Sharing::Refused) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  return fd;
}

std::uint64_t inode_of(const FileDescriptor& fd) {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0 ? status.st_ino : 0;
}

std::shared_ptr<ListenSocket> socket_of(FileDescriptor fd, const SocketAddress& address) {
  auto socket = std::make_shared<ListenSocket>();
  socket->fd = std::move(fd);
  socket->address = address;
  socket->wildcard = address.ip.is_unspecified();
  socket->inode = inode_of(socket->fd);
  return socket;
}

}  // namespace

bool is_on_this_machine(const SocketAddress& address) {
  sockaddr_storage name{};
  const auto size = SocketAddress{address.ip, 0, address.zone}.to_sockaddr(name);
  if (!size) return false;
  const FileDescriptor fd(::socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return !fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), *size) == 0 ||
         errno != EADDRNOTAVAIL;
}

Error listen_error(const SocketAddress& address, Protocol protocol, int error) {
  std::string message = "cannot listen on " + address.to_string() + " (" + name_of(protocol) +
                        "): " + std::strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
      if (address.port != 0 && address.port < kFirstFreePort)
        message += "; ports below 1024 need CAP_NET_BIND_SERVICE";
      break;
    case EADDRINUSE:
      message += "; " + describe_owner(address, protocol);
      break;
    case EADDRNOTAVAIL:
      message += "; no interface of this machine has the address";
      break;
    case EAFNOSUPPORT:
      message += "; this machine has no IPv6";
      break;
    case EMFILE:
    case ENFILE:
      message += "; raise the limit of open files";
      break;
    default:
      break;
  }
  return {std::move(message)};
}

std::optional<SocketAddress> bound_address(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::nullopt;
  const auto ip = IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
  if (!ip) return std::nullopt;
  SocketAddress address{*ip, 0, ""};
  if (name.ss_family == AF_INET) {
    address.port = ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
    return address;
  }
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&name);
  address.port = ntohs(v6->sin6_port);
  char zone[IF_NAMESIZE];
  if (v6->sin6_scope_id != 0 && ::if_indextoname(v6->sin6_scope_id, zone) != nullptr)
    address.zone = zone;
  return address;
}

bool is_udp(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

std::expected<std::shared_ptr<ListenSocket>, OpenError> open_socket(const SocketAddress& address,
                                                                    Protocol protocol,
                                                                    Sharing sharing) {
  sockaddr_storage name{};
  const auto name_size = address.to_sockaddr(name);
  if (!name_size) return std::unexpected(OpenError{name_size.error()});
  auto fd = bind_socket(address, protocol, name, *name_size, sharing);
  if (!fd) return std::unexpected(open_error(address, protocol, fd.error()));
  auto socket = socket_of(*std::move(fd), address);
  if (address.port == 0) socket->address.port = bound_address(socket->fd.get())->port;
  return socket;
}

std::shared_ptr<ListenSocket> adopt_socket(FileDescriptor fd, const SocketAddress& address) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  if (is_udp(fd.get()))
    prepare_udp(fd.get(), address);
  else
    prepare_tcp(fd.get());
  auto socket = socket_of(std::move(fd), address);
  socket->inherited = true;
  return socket;
}

}  // namespace meshdns::dnsd
