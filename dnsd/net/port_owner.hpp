// SPDX-License-Identifier: Apache-2.0
// Finds sockets of this machine: the process that has an address that cannot be bound, and the
// client of a query.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/net/query_sink.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

// The functions on processes read /proc, so they are only for error paths.

enum class Protocol : std::uint8_t { Udp, Tcp };

const char* name_of(Protocol protocol);

// Returns true if sockets of `a` and `b` cannot exist side by side without SO_REUSEPORT: same port,
// and equal addresses or one is a wildcard.  "[::]" also stands for every IPv4 address.
bool overlaps(const SocketAddress& a, const SocketAddress& b);

// Returns the inodes of all UDP sockets, or listening TCP sockets, of this network namespace whose
// address overlaps `address`.  Any process's; empty if /proc cannot be read.
std::vector<std::uint64_t> inodes_bound_to(const SocketAddress& address, Protocol protocol);

struct SocketOwner {
  pid_t pid = 0;
  std::string program;  // as in /proc/PID/comm
};

// Returns a process that holds one of these sockets, or nullopt if this user may not see any.
std::optional<SocketOwner> owner_of(const std::vector<std::uint64_t>& inodes);

// Returns another process that has a socket of `address`, or nullopt if this user may not see any.
std::optional<SocketOwner> other_owner(const SocketAddress& address, Protocol protocol);

// "process 4711 (dnsmasq) is using this port", or how to find out, for an address in use.
std::string describe_owner(const SocketAddress& address, Protocol protocol);

// Returns whether the client is a socket of this network namespace that is connected to the address
// that it asked.  A forged source, and one that a rule for NAT has written, have no such socket; a
// client over UDP that does not connect its socket is not found either.  Asks the kernel
// (sock_diag(7)), which takes about 10 us; false if that is not allowed.
bool is_own_socket(const Peer& client);

}  // namespace meshdns::dnsd
