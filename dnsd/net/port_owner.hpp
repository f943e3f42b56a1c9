// SPDX-License-Identifier: Apache-2.0
// Finds the process that has an address that cannot be bound.  Reads /proc, so only for error
// paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
