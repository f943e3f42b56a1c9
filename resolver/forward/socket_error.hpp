// SPDX-License-Identifier: Apache-2.0
// Why a socket could not be had or used.  A shortage of our own (descriptors, ports, memory, a
// limit that we set) says nothing of the upstream: it must neither be held against it nor be
// remembered as the name's failure.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace meshdns::dnsd {

struct SocketError {
  std::string message;
  bool is_shortage = false;
};

template <typename T>
using SocketResult = std::expected<T, SocketError>;

// `error`: an errno.
SocketError socket_error(std::string_view what, int error);

// Whether an errno says that this host, not the peer or the path, lacks something.
bool is_shortage(int error);

// The highest descriptor that a socket towards an upstream may have: its number says how full the
// table is, and the descriptors above are reserved for files and the admin endpoint.
int highest_upstream_descriptor();

// The error for a socket above that descriptor.
SocketError too_many_sockets();

}  // namespace meshdns::dnsd
