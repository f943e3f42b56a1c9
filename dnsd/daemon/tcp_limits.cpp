// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/tcp_limits.hpp"

#include <algorithm>

#include "dnsd/daemon/worker_pool.hpp"
#include "registry/base/descriptor_limit.hpp"

namespace meshdns::dnsd {
namespace {

// Bytes that unfinished queries and unread answers of all TCP clients may take, and the share that
// one worker has in any case.
constexpr std::size_t kHeldByTcp = 32 << 20;
constexpr std::size_t kLeastHeldByTcp = 1 << 20;

}  // namespace

TcpLimits tcp_limits(const ServerConfig& server) {
  const TcpConfig& config = server.tcp;
  TcpLimits limits;
  limits.max_held = std::max(kHeldByTcp / worker_count(server), kLeastHeldByTcp);
  limits.max_connections = config.max_connections;
  limits.max_connections_per_client = config.max_connections_per_client;
  limits.idle_timeout = config.idle_timeout;
  // Clients hold descriptors for minutes; questions to upstreams need some for milliseconds.
  limits.reserved_files = std::max(limits.reserved_files, descriptor_limit() / 4);
  return limits;
}

}  // namespace meshdns::dnsd
