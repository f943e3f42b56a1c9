// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/listeners.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "dnsd/net/port_owner.hpp"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

namespace meshdns::dnsd {
namespace {

// Bursts wait here while a worker is busy.  The kernel may allow less.
constexpr int kBufferBytes = 4 << 20;
constexpr int kStreamBufferBytes = 128 << 10;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

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

// The way to bind an address.  Two sockets can only share an address if both have SO_REUSEPORT at
// the moment when the second one binds.  So the first socket of an address binds without it, which
// fails if any other process is there, and gets it afterwards, for the sockets of our other
// workers. Of two daemons that start at once, exactly one wins.
enum class Sharing : std::uint8_t {
  Refused,        // the first socket of an address, and none of ours is there
  WithOurselves,  // a socket of ours has the address
};

// The sockets of this process, among them those of listeners that went away whose last replies are
// still to be sent.
class OwnSockets {
 public:
  void add(const ListenSocket& socket) { sockets_.push_back(&socket); }
  void add(const std::vector<Listener>& listeners) {
    for (const Listener& listener : listeners)
      for (const auto* const sockets : {&listener.udp, &listener.tcp})
        for (const auto& socket : *sockets) add(*socket);
  }

  // True if some of them overlap `address`, and nobody else's do.
  bool alone_have(const SocketAddress& address) const {
    std::vector<std::uint64_t> own;
    for (const ListenSocket* socket : sockets_)
      if (overlaps(socket->address, address)) own.push_back(socket->inode);
    const auto is_ours = [&](std::uint64_t inode) { return std::ranges::count(own, inode) > 0; };
    return !own.empty() && std::ranges::all_of(inodes_bound_to(address, Protocol::Udp), is_ours) &&
           std::ranges::all_of(inodes_bound_to(address, Protocol::Tcp), is_ours);
  }

 private:
  std::vector<const ListenSocket*> sockets_;
};

struct OpenError {
  Error error;
  bool in_use = false;  // another process has the address
};

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

// Port 0 becomes the port that the kernel has chosen.
std::expected<std::shared_ptr<ListenSocket>, OpenError> open_socket(const SocketAddress& address,
                                                                    Protocol protocol,
                                                                    Sharing sharing) {
  sockaddr_storage name{};
  const auto name_size = address.to_sockaddr(name);
  if (!name_size) return std::unexpected(OpenError{name_size.error()});
  auto fd = bind_socket(address, protocol, name, *name_size, sharing);
  if (!fd) return std::unexpected(open_error(address, protocol, fd.error()));
  auto socket = std::make_shared<ListenSocket>();
  socket->fd = *std::move(fd);
  socket->address = address;
  if (address.port == 0) socket->address.port = bound_address(socket->fd.get())->port;
  socket->wildcard = address.ip.is_unspecified();
  socket->inode = inode_of(socket->fd);
  return socket;
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

// Opens the first worker's UDP and TCP sockets, which claim the address for this process: UDP
// first, since of two UDP sockets that bind at once only one succeeds.
std::expected<Listener, OpenError> claim(const SocketAddress& requested) {
  constexpr int kTries = 64;  // for a port that is free for both protocols
  OpenError error;
  for (int i = 0; i < kTries; ++i) {
    auto udp = open_socket(requested, Protocol::Udp, Sharing::Refused);
    if (!udp) return std::unexpected(std::move(udp.error()));
    const SocketAddress address = (*udp)->address;
    auto tcp = open_socket(address, Protocol::Tcp, Sharing::Refused);
    if (tcp) return Listener{requested, address, false, {*std::move(udp)}, {*std::move(tcp)}};
    error = std::move(tcp.error());
    if (requested.port != 0 || !error.in_use) break;
  }
  return std::unexpected(std::move(error));
}

// Opens the sockets of all workers.  `ours` are this process's sockets that are open already: an
// address that overlaps one of them cannot be claimed but is ours, unless others share it.
std::expected<Listener, OpenError> open_listener(const SocketAddress& requested, unsigned workers,
                                                 const OwnSockets& ours) {
  auto claimed = claim(requested);
  const bool is_beside = !claimed && claimed.error().in_use && ours.alone_have(requested);
  if (!claimed && !is_beside) return claimed;
  Listener listener = claimed ? *std::move(claimed) : Listener{requested, requested, false, {}, {}};
  while (listener.tcp.size() < workers) {
    for (const Protocol protocol : {Protocol::Udp, Protocol::Tcp}) {
      auto socket = open_socket(listener.address, protocol, Sharing::WithOurselves);
      if (!socket) return std::unexpected(std::move(socket.error()));
      (protocol == Protocol::Udp ? listener.udp : listener.tcp).push_back(*std::move(socket));
    }
  }
  // The program counts the group's sockets.  If some of them belong to a listener that went away,
  // the kernel's own choice is right: it passes over those, since they are connected.
  if (!is_beside) spread_at_random(*listener.udp.front(), workers);
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
    copy->inode = original.inode;
    sockets.push_back(std::move(copy));
  }
  return true;
}

// The sockets without duplicates.
std::vector<const ListenSocket*> distinct(
    const std::vector<std::shared_ptr<ListenSocket>>& sockets) {
  std::vector<const ListenSocket*> found;
  for (const auto& socket : sockets)
    if (std::ranges::find(found, socket->inode, &ListenSocket::inode) == found.end())
      found.push_back(socket.get());
  return found;
}

bool has_one_for_each(const std::vector<std::shared_ptr<ListenSocket>>& sockets, unsigned workers) {
  return sockets.size() == workers && distinct(sockets).size() == workers;
}

// Undoes the choice of sockets that deal_to() made.
void spread_over_all(const Listener& listener) {
  spread_at_random(*listener.udp.front(), static_cast<unsigned>(distinct(listener.udp).size()));
  ::setsockopt(listener.tcp.front()->fd.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, nullptr, 0);
}

bool contains(std::span<const SocketAddress> addresses, const SocketAddress& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

}  // namespace

Result<ListenerSet> ListenerSet::open(std::span<const SocketAddress> addresses, unsigned workers) {
  ListenerSet set;
  set.workers_ = std::max(workers, 1u);
  Change change = set.change_to(addresses);
  if (!change.failures.empty()) return std::unexpected(std::move(change.failures.front()));
  return std::move(change.set);
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
    socket->inode = inode_of(socket->fd);
    (udp ? listener->udp : listener->tcp).push_back(std::move(socket));
  }
  for (Listener& listener : set.listeners_)
    if (!share_among(listener.udp, set.workers_) || !share_among(listener.tcp, set.workers_))
      return std::unexpected(listen_error(listener.address, Protocol::Udp, errno));
  return set;
}

Result<ListenerSet> ListenerSet::take_over(std::vector<HandedListener> listeners,
                                           unsigned workers) {
  ListenerSet set;
  set.workers_ = std::max(workers, 1u);
  for (HandedListener& handed : listeners) {
    const SocketAddress& requested = handed.requested;
    auto adopted = adopt(std::move(handed.sockets), workers);
    if (!adopted) return std::unexpected(adopted.error());
    // One address, both protocols, and the address that was asked for.
    if (adopted->listeners_.size() != 1 || adopted->listeners_.front().udp.empty() ||
        adopted->listeners_.front().tcp.empty() ||
        adopted->listeners_.front().address.ip != requested.ip ||
        (requested.port != 0 && adopted->listeners_.front().address.port != requested.port))
      return fail("the sockets that were handed over are not those of " + requested.to_string());
    Listener& listener = adopted->listeners_.front();
    listener.requested = requested;
    listener.inherited = false;
    for (const auto* const sockets : {&listener.udp, &listener.tcp})
      for (const auto& socket : *sockets) socket->inherited = false;
    spread_over_all(listener);
    set.listeners_.push_back(std::move(listener));
  }
  return set;
}

std::vector<SharedListener> ListenerSet::share(std::span<const std::string> addresses) const {
  std::vector<SharedListener> shared;
  for (const Listener& listener : listeners_) {
    const bool is_wanted =
        std::ranges::find(addresses, listener.requested.to_string()) != addresses.end();
    if (!is_wanted || listener.inherited) continue;
    SharedListener& one = shared.emplace_back(SharedListener{listener.requested, {}});
    for (const auto* const sockets : {&listener.udp, &listener.tcp})
      for (const ListenSocket* socket : distinct(*sockets)) one.sockets.push_back(socket->fd.get());
  }
  return shared;
}

ListenerSet::Change ListenerSet::change_to(std::span<const SocketAddress> addresses) const {
  Change change;
  change.set.workers_ = workers_;
  const auto find = [this](const SocketAddress& address) {
    return std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) {
      return l.requested == address || l.address == address;
    });
  };
  std::vector<SocketAddress> missing;
  for (const SocketAddress& address : addresses)
    if (find(address) == listeners_.end()) missing.push_back(address);
  // Wildcards first: what they cover is then ours.
  std::ranges::stable_partition(missing, [](const auto& a) { return a.ip.is_unspecified(); });
  std::vector<std::shared_ptr<ListenSocket>> retired;
  for (const auto& socket : retired_)
    if (auto held = socket.lock()) retired.push_back(std::move(held));
  for (const SocketAddress& address : missing) {
    OwnSockets ours;
    for (const auto& socket : retired) ours.add(*socket);
    ours.add(listeners_);
    ours.add(change.set.listeners_);
    auto listener = open_listener(address, workers_, ours);
    if (!listener) {
      change.is_in_use |= listener.error().in_use;
      change.failures.push_back(std::move(listener.error().error));
      continue;
    }
    change.opened.push_back(listener->address);
    change.set.listeners_.push_back(*std::move(listener));
  }
  std::ranges::stable_sort(change.set.listeners_, {}, [&](const Listener& l) {
    return std::ranges::find(addresses, l.requested) - addresses.begin();
  });
  change.set.retired_.assign(retired.begin(), retired.end());
  for (const Listener& old : listeners_) {
    const bool wanted = old.inherited || contains(addresses, old.requested) ||
                        contains(addresses, old.address) || !change.failures.empty();
    if (wanted) {
      change.set.listeners_.push_back(old);
    } else {
      change.closed.push_back(old.address);
      for (const auto* const sockets : {&old.udp, &old.tcp})
        change.set.retired_.insert(change.set.retired_.end(), sockets->begin(), sockets->end());
    }
  }
  return change;
}

void ListenerSet::deal_to(std::span<const unsigned> workers) const {
  const bool to_all = workers.empty() || workers.size() == workers_;
  for (const Listener& listener : listeners_) {
    if (listener.inherited || !has_one_for_each(listener.udp, workers_) ||
        !has_one_for_each(listener.tcp, workers_))
      continue;
    if (to_all) {
      spread_over_all(listener);
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
