// SPDX-License-Identifier: Apache-2.0
// The listening sockets of all workers, opened on the control thread before any worker answers.
//
// Each worker has a UDP and a TCP socket of its own per address (SO_REUSEPORT), so that workers
// share nothing.  No other process can join: an address is claimed before it is shared.  The kernel
// spreads UDP over such a group by a hash of addresses and ports, which is uneven when few clients
// use few source ports; a three-instruction classic BPF program on the group picks at random
// instead.  TCP keeps the hash: there each connection has a new port.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

// One worker's socket for one address.  Shared by the set and the worker; closed by the last.
struct ListenSocket {
  FileDescriptor fd;
  SocketAddress address;    // with the actual port
  bool wildcard = false;    // bound to 0.0.0.0 or [::]: replies need the address that was asked
  bool inherited = false;   // the giver holds it, too: it outlives us and keeps its queue
  std::uint64_t inode = 0;  // the kernel's number of the socket
};

// One address: sockets by worker.
struct Listener {
  SocketAddress requested;  // as configured; port 0 = any
  SocketAddress address;    // with the actual port, the same for UDP and TCP
  bool inherited = false;
  std::vector<std::shared_ptr<ListenSocket>> udp;
  std::vector<std::shared_ptr<ListenSocket>> tcp;
};

// A socket handed over by whoever started us (systemd socket activation).  Ownership passes.
struct InheritedSocket {
  FileDescriptor fd;
};

// A listener of this process, for another one: each socket once, in the order of the workers. Valid
// as long as its set is.
struct SharedListener {
  SocketAddress requested;
  std::vector<int> sockets;
};

// A listener of another process, as SharedListener gave it.  Ownership passes.
struct HandedListener {
  SocketAddress requested;
  std::vector<InheritedSocket> sockets;
};

// The fate of queries and connections that wait in a socket when this process stops serving it.
enum class Waiting : std::uint8_t {
  Answered,      // by this process
  LeftToOthers,  // another process has the same socket, and serves it
};

// A value; copies share sockets.
class ListenerSet {
 public:
  // Binds UDP and TCP on every address for `workers` workers, or nothing at all: the Error then
  // says which address, which protocol, why, and what helps.  An address that any other process
  // has is an Error, another meshdnsd's, too.
  static Result<ListenerSet> open(std::span<const SocketAddress> addresses, unsigned workers);

  // Takes over already bound sockets, UDP and TCP in any number and order; sockets of the same
  // address are given to the workers in turn and shared where there are too few.
  static Result<ListenerSet> adopt(std::vector<InheritedSocket> sockets, unsigned workers);

  // Takes over the sockets of another meshdnsd, which may go on to serve them.  They count as
  // opened here.  With another number of workers than theirs, some serve several sockets, or share
  // one.
  static Result<ListenerSet> take_over(std::vector<HandedListener> listeners, unsigned workers);
  // Returns the listeners of `addresses`, as SocketAddress::to_string writes the configured ones,
  // without inherited ones.
  std::vector<SharedListener> share(std::span<const std::string> addresses) const;

  struct Change;
  // The set for `addresses`: what is unchanged keeps its sockets, new ones are bound now, before
  // any old one closes.  Where one cannot be bound, its Error is in `failures` and no old listener
  // goes away.  Inherited listeners always stay.
  Change change_to(std::span<const SocketAddress> addresses) const;

  // Has the kernel give new queries and connections to these workers only, by index and at random;
  // what waits in the others' sockets stays there.  Every worker, or none: as it was at first.
  // Inherited sockets are their giver's to deal out, and others of which not every worker has its
  // own are not dealt out.  Control thread; no worker takes part.
  void deal_to(std::span<const unsigned> workers) const;

  std::span<const Listener> listeners() const { return listeners_; }
  std::vector<SocketAddress> addresses() const;  // the actual ones
  unsigned workers() const { return workers_; }

 private:
  std::vector<Listener> listeners_;
  // Sockets of listeners that went away.  Workers keep them open until the last reply is sent.
  std::vector<std::weak_ptr<ListenSocket>> retired_;
  unsigned workers_ = 0;
};

struct ListenerSet::Change {
  ListenerSet set;
  std::vector<Error> failures;
  bool is_in_use = false;  // another process has one of the addresses, perhaps only for a moment
  std::vector<SocketAddress> opened;  // actual addresses
  std::vector<SocketAddress> closed;
};

// The sockets that systemd passed to this process (sd_listen_fds), or none.  Clears the environment
// that says so.  Control thread, before any other is started.
std::vector<InheritedSocket> sockets_from_systemd();

}  // namespace meshdns::dnsd
