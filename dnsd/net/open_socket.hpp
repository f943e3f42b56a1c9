// SPDX-License-Identifier: Apache-2.0
// Opens one listening socket, and sets the options that reading and answering rely on.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>

#include "dnsd/net/listeners.hpp"
#include "dnsd/net/port_owner.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

// The way to bind an address.  Two sockets can only share an address if both have SO_REUSEPORT at
// the moment when the second one binds.  So the first socket of an address binds without it, which
// fails if any other process is there, and gets it afterwards, for the sockets of our other
// workers. Of two daemons that start at once, exactly one wins.
enum class Sharing : std::uint8_t {
  Refused,        // the first socket of an address, and none of ours is there
  WithOurselves,  // a socket of ours has the address
};

struct OpenError {
  Error error;
  bool in_use = false;  // another process has the address
};

// Returns a bound socket that listens.  Port 0 becomes the port that the kernel has chosen.
std::expected<std::shared_ptr<ListenSocket>, OpenError> open_socket(const SocketAddress& address,
                                                                    Protocol protocol,
                                                                    Sharing sharing);

// Takes a socket that another process has opened, with its `address`; sets what open_socket() sets.
std::shared_ptr<ListenSocket> adopt_socket(FileDescriptor fd, const SocketAddress& address);

// Says that `address` cannot be used, why, and what helps.  `error`: an errno.
Error listen_error(const SocketAddress& address, Protocol protocol, int error);

// Returns false if this machine does not have the address, on an interface or by a local route.
bool is_on_this_machine(const SocketAddress& address);

// The address of a bound internet socket; nullopt for other descriptors.
std::optional<SocketAddress> bound_address(int fd);
bool is_udp(int fd);

}  // namespace meshdns::dnsd
