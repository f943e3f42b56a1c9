#include "dnsd/net/listeners.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

namespace meshdns::dnsd {
namespace {

// Bursts wait here while a worker is busy (reliability.md R60); the kernel gives what it allows.
constexpr int kBufferBytes = 4 << 20;
constexpr int kStreamBufferBytes = 128 << 10;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

enum class Protocol : std::uint8_t { Udp, Tcp };

const char* name_of(Protocol protocol) { return protocol == Protocol::Udp ? "UDP" : "TCP"; }

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

Error listen_error(const SocketAddress& address, Protocol protocol, int error) {
  std::string message = "cannot listen on " + address.to_string() + " (" + name_of(protocol) +
                        "): " + std::strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
      message += "; ports below 1024 need CAP_NET_BIND_SERVICE";
      break;
    case EADDRINUSE:
      message += "; another program has this port (\"ss -lntup\" shows which)";
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

// Whether there is room enough already: whoever made an inherited socket may have been allowed more
// than we are.  The kernel counts twice what was asked for.
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

// What our reading and answering rely on, whoever made the socket.
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
  // Who does not read has replies wait in the kernel, too, which otherwise takes megabytes for
  // each.
  set_option(fd, SOL_SOCKET, SO_SNDBUF, kStreamBufferBytes);
}

// A bound socket, or errno.  `shared`: other sockets of ours will bind the same address.
std::expected<FileDescriptor, int> bind_socket(const SocketAddress& address, Protocol protocol,
                                               const sockaddr_storage& name, unsigned name_size,
                                               bool shared) {
  const int type = protocol == Protocol::Udp ? SOCK_DGRAM : SOCK_STREAM;
  FileDescriptor fd(::socket(name.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return std::unexpected(errno);
  if (shared) {
    set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    if (protocol == Protocol::Tcp) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  }
  // A node-local address may be put on its interface after we start.
  set_option(fd.get(), IPPROTO_IP, IP_FREEBIND, 1);
  if (name.ss_family == AF_INET6)
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, address.ip.is_unspecified() ? 0 : 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), name_size) != 0)
    return std::unexpected(errno);
  return fd;
}

Result<std::shared_ptr<ListenSocket>> open_socket(const SocketAddress& address, Protocol protocol) {
  sockaddr_storage name{};
  const auto name_size = address.to_sockaddr(name);
  if (!name_size) return std::unexpected(name_size.error());
  auto fd = bind_socket(address, protocol, name, *name_size, true);
  if (!fd) return std::unexpected(listen_error(address, protocol, fd.error()));
  if (protocol == Protocol::Udp) {
    prepare_udp(fd->get(), address);
  } else {
    prepare_tcp(fd->get());
    if (::listen(fd->get(), kBacklog) != 0)
      return std::unexpected(listen_error(address, protocol, errno));
  }
  auto socket = std::make_shared<ListenSocket>();
  socket->fd = *std::move(fd);
  socket->address = address;
  socket->wildcard = address.ip.is_unspecified();
  return socket;
}

// A port that nobody has, for UDP and TCP.  Found without SO_REUSEPORT: with it the kernel may hand
// out a port that another process of the same user shares.
Result<std::uint16_t> find_free_port(const SocketAddress& address) {
  constexpr int kTries = 64;
  int error = EADDRINUSE;
  Protocol protocol = Protocol::Udp;
  for (int i = 0; i < kTries; ++i) {
    sockaddr_storage name{};
    const auto name_size = address.to_sockaddr(name);
    if (!name_size) return std::unexpected(name_size.error());
    const auto udp = bind_socket(address, Protocol::Udp, name, *name_size, false);
    if (!udp) return std::unexpected(listen_error(address, Protocol::Udp, udp.error()));
    SocketAddress found = address;
    found.port = bound_address(udp->get()).value_or(address).port;
    sockaddr_storage same{};
    if (!found.to_sockaddr(same)) continue;
    const auto tcp = bind_socket(found, Protocol::Tcp, same, *name_size, false);
    if (tcp) return found.port;
    protocol = Protocol::Tcp;
    error = tcp.error();
  }
  return std::unexpected(listen_error(address, protocol, error));
}

// In place of what the group had; where the kernel refuses, that stays.
void choose_by(std::span<sock_filter> code, const ListenSocket& any_of_group) {
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::setsockopt(any_of_group.fd.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
               sizeof program);
}

sock_filter random_number() {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM));
}

// Lets the kernel choose a socket of the group at random, not by the hash of addresses and ports:
// uneven for few clients, but right.
void spread_at_random(const ListenSocket& any_of_group, unsigned workers) {
  if (workers < 2) return;
  std::array<sock_filter, 3> code = {
      random_number(),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, workers),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  choose_by(code, any_of_group);
}

// The same among some of the sockets, which are in the group by the order of their workers.
void spread_over(const ListenSocket& any_of_group, std::span<const unsigned> workers) {
  std::vector<sock_filter> code = {
      random_number(),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, static_cast<std::uint32_t>(workers.size())),
  };
  for (std::uint32_t drawn = 0; drawn < workers.size(); ++drawn) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, drawn, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, workers[drawn]));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, workers.front()));  // a program must end
  choose_by(code, any_of_group);
}

Result<Listener> open_listener(const SocketAddress& requested, unsigned workers) {
  Listener listener{requested, requested, false, {}, {}};
  if (requested.port == 0) {
    const auto port = find_free_port(requested);
    if (!port) return std::unexpected(port.error());
    listener.address.port = *port;
  }
  for (unsigned worker = 0; worker < workers; ++worker) {
    for (const Protocol protocol : {Protocol::Udp, Protocol::Tcp}) {
      auto socket = open_socket(listener.address, protocol);
      if (!socket) return std::unexpected(std::move(socket.error()));
      (protocol == Protocol::Udp ? listener.udp : listener.tcp).push_back(*std::move(socket));
    }
  }
  spread_at_random(*listener.udp.front(), workers);
  return listener;
}

// Gives each worker one of `sockets`, duplicates where there are too few.
bool share_among(std::vector<std::shared_ptr<ListenSocket>>& sockets, unsigned workers) {
  const std::size_t given = sockets.size();
  if (given == 0) return true;
  for (std::size_t i = given; i < workers; ++i) {
    const ListenSocket& original = *sockets[i % given];
    auto copy = std::make_shared<ListenSocket>();
    copy->fd = FileDescriptor(::fcntl(original.fd.get(), F_DUPFD_CLOEXEC, 3));
    if (!copy->fd) return false;
    copy->address = original.address;
    copy->wildcard = original.wildcard;
    copy->inherited = true;
    sockets.push_back(std::move(copy));
  }
  return true;
}

bool contains(std::span<const SocketAddress> addresses, const SocketAddress& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

}  // namespace

Result<ListenerSet> ListenerSet::open(std::span<const SocketAddress> addresses, unsigned workers) {
  ListenerSet set;
  set.workers_ = std::max(workers, 1u);
  for (const SocketAddress& address : addresses) {
    auto listener = open_listener(address, set.workers_);
    if (!listener) return std::unexpected(std::move(listener.error()));
    set.listeners_.push_back(*std::move(listener));
  }
  return set;
}

Result<ListenerSet> ListenerSet::adopt(std::vector<InheritedSocket> sockets, unsigned workers) {
  ListenerSet set;
  set.workers_ = std::max(workers, 1u);
  for (InheritedSocket& inherited : sockets) {
    const int fd = inherited.fd.get();
    const auto address = bound_address(fd);
    if (!address)
      return fail(
          "inherited file descriptor " + std::to_string(fd) +
          " is not a bound internet socket; the socket unit must name an IP address and port");
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    auto listener = std::find_if(set.listeners_.begin(), set.listeners_.end(),
                                 [&](const Listener& l) { return l.address == *address; });
    if (listener == set.listeners_.end())
      listener = set.listeners_.insert(listener, Listener{*address, *address, true, {}, {}});
    const bool udp = is_udp(fd);
    if (udp)
      prepare_udp(fd, *address);
    else
      prepare_tcp(fd);
    auto socket = std::make_shared<ListenSocket>();
    socket->fd = std::move(inherited.fd);
    socket->address = *address;
    socket->wildcard = address->ip.is_unspecified();
    socket->inherited = true;
    (udp ? listener->udp : listener->tcp).push_back(std::move(socket));
  }
  for (Listener& listener : set.listeners_)
    if (!share_among(listener.udp, set.workers_) || !share_among(listener.tcp, set.workers_))
      return std::unexpected(listen_error(listener.address, Protocol::Udp, errno));
  return set;
}

ListenerSet::Change ListenerSet::change_to(std::span<const SocketAddress> addresses) const {
  Change change;
  change.set.workers_ = workers_;
  const auto find = [this](const SocketAddress& address) {
    return std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) {
      return l.requested == address || l.address == address;
    });
  };
  for (const SocketAddress& address : addresses) {
    if (find(address) != listeners_.end()) continue;
    auto listener = open_listener(address, workers_);
    if (!listener) {
      change.failures.push_back(std::move(listener.error()));
      continue;
    }
    change.opened.push_back(listener->address);
    change.set.listeners_.push_back(*std::move(listener));
  }
  for (const Listener& old : listeners_) {
    const bool wanted = old.inherited || contains(addresses, old.requested) ||
                        contains(addresses, old.address) || !change.failures.empty();
    if (wanted)
      change.set.listeners_.push_back(old);
    else
      change.closed.push_back(old.address);
  }
  return change;
}

void ListenerSet::deal_to(std::span<const unsigned> workers) const {
  const bool to_all = workers.empty() || workers.size() == workers_;
  for (const Listener& listener : listeners_) {
    if (listener.inherited) continue;
    if (to_all) {
      spread_at_random(*listener.udp.front(), workers_);
      ::setsockopt(listener.tcp.front()->fd.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, nullptr, 0);
    } else {
      spread_over(*listener.udp.front(), workers);
      spread_over(*listener.tcp.front(), workers);
    }
  }
}

std::vector<SocketAddress> ListenerSet::addresses() const {
  std::vector<SocketAddress> addresses;
  for (const Listener& listener : listeners_) addresses.push_back(listener.address);
  return addresses;
}

std::vector<InheritedSocket> sockets_from_systemd() {
  std::vector<InheritedSocket> sockets;
  const int count = ::sd_listen_fds(/*unset_environment=*/1);
  for (int i = 0; i < count; ++i) sockets.push_back({FileDescriptor(SD_LISTEN_FDS_START + i)});
  return sockets;
}

}  // namespace meshdns::dnsd
