// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/listeners.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dnsd/net/open_socket.hpp"
#include "dnsd/net/port_owner.hpp"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

namespace meshdns::dnsd {
namespace {

void choose_by(std::span<sock_filter> code, const ListenSocket& any_of_group) {
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::setsockopt(any_of_group.fd.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
               sizeof program);
}

sock_filter random_number() {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM));
}

// Groups of sockets that share one address (SO_REUSEPORT), and the kernel's choice among them for
// each query and connection.  Where the kernel refuses another choice, the one before stays.
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
// REQUIRES: `workers` is not empty.
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

// Gives the group the kernel's own choice back.
void spread_by_hash(const ListenSocket& any_of_group) {
  const int unused = 0;  // the kernel refuses the option without a value
  ::setsockopt(any_of_group.fd.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof unused);
}

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
  spread_by_hash(*listener.tcp.front());
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
    auto listener = std::find_if(set.listeners_.begin(), set.listeners_.end(),
                                 [&](const Listener& l) { return l.address == *address; });
    if (listener == set.listeners_.end())
      listener = set.listeners_.insert(listener, Listener{*address, *address, true, {}, {}});
    auto& group = is_udp(fd) ? listener->udp : listener->tcp;
    group.push_back(adopt_socket(std::move(inherited.fd), *address));
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
