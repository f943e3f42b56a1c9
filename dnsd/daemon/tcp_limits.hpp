// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/net/tcp_budget.hpp"

namespace meshdns::dnsd {

// The limits of clients' TCP connections.  A part of the file descriptors that this process may
// have now is kept for other uses.
TcpLimits tcp_limits(const ServerConfig& server);

}  // namespace meshdns::dnsd
