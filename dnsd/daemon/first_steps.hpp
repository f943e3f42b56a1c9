// SPDX-License-Identifier: Apache-2.0
// The end of a start for a person at a terminal: a question to ask, where the page is, how to stop.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "registry/base/socket_address.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// Returns three lines.  The question is for the shortest name with an address that a client of this
// machine sees, or, if there is none, for a name that is forwarded.  `admin`: the address of the
// admin endpoint, or "off".  REQUIRES: `listen` is not empty.
std::string first_steps(const registry::Snapshot& snapshot, std::span<const SocketAddress> listen,
                        std::string_view admin);

// Whether standard error is a terminal.
bool is_at_terminal();
// Writes the text to standard error; not at all if the terminal takes no text now.
void show_at_terminal(std::string_view text);

}  // namespace meshdns::dnsd
