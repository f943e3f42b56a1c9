// SPDX-License-Identifier: Apache-2.0
// Groups of sockets that share one address (SO_REUSEPORT), and the kernel's choice among them for
// each query and connection.  Where the kernel refuses another choice, the one before stays.
#pragma once

#include <span>

#include "dnsd/net/listeners.hpp"

namespace meshdns::dnsd {

// Lets the kernel choose a socket of the group at random, not by the hash of addresses and ports:
// uneven for few clients, but right.
void spread_at_random(const ListenSocket& any_of_group, unsigned workers);

// The same among some of the sockets, which are in the group by the order of their workers.
// REQUIRES: `workers` is not empty.
void spread_over(const ListenSocket& any_of_group, std::span<const unsigned> workers);

// Gives the group the kernel's own choice back.
void spread_by_hash(const ListenSocket& any_of_group);

}  // namespace meshdns::dnsd
