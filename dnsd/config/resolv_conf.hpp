// SPDX-License-Identifier: Apache-2.0
// /etc/resolv.conf as resolv.conf(5) describes it: where queries go when the configuration names
// no upstream.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kMaxNameservers = 16;  // further ones are left out
inline constexpr std::size_t kMaxSearchDomains = 32;

struct ResolvConf {
  std::vector<SocketAddress> nameservers;  // port 53, in the file's order, without repetition
  std::vector<std::string> search;         // canonical; `search` and `domain`, the last one wins
  std::uint32_t ndots = 1;                 // capped at 15, as glibc does
  std::chrono::seconds timeout{5};         // capped at 30, as glibc does
  friend bool operator==(const ResolvConf&, const ResolvConf&) = default;
};

// Any text is safe: lines that make no sense are skipped, as resolvers do.
ResolvConf parse_resolv_conf(std::string_view text);
// An Error where the file cannot be read or is larger than 1 MiB.
Result<ResolvConf> read_resolv_conf(const std::string& path);

// `servers` without those that lead back to us: an address and port that we listen on, or any
// address of this machine where we listen on the wildcard address with that port ("[::]:53" stands
// for both families).  A stub such as 127.0.0.53 stays unless it is ours.
// `listen` must have the ports really bound.  `local_addresses` are this machine's; loopback
// addresses count as local without being named.
std::vector<SocketAddress> exclude_own(std::span<const SocketAddress> servers,
                                       std::span<const SocketAddress> listen,
                                       std::span<const IpAddress> local_addresses);

// The current addresses of this machine's interfaces; empty if the system call fails.
std::vector<IpAddress> local_addresses();

}  // namespace meshdns::dnsd
