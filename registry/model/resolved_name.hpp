// SPDX-License-Identifier: Apache-2.0
// The result of the resolver engine for one endpoint name.  It is an input of the registry: it
// changes the addresses of endpoint sets, in a transaction like other changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

struct ResolvedName {
  enum class State : std::uint8_t {
    Pending,      // no lookup has ended yet: queries wait
    Resolved,     // `addresses` are the latest good answer
    NoAddresses,  // the name exists without addresses, or does not exist
    Failed,       // no good answer yet, or the last one is older than serve_stale
  };
  std::string host;  // canonical
  State state = State::Pending;
  // In the order of the latest answer, IPv4 and IPv6 mixed as they came (A first); unique.
  std::vector<IpAddress> addresses;
  friend bool operator==(const ResolvedName&, const ResolvedName&) = default;
};

}  // namespace meshdns::registry
