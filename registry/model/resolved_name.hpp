// SPDX-License-Identifier: Apache-2.0
// What the resolver engine knows of one name that endpoint sets use.  The registry takes it as one
// more input: it changes what the sets answer, in the same transaction as everything else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

struct ResolvedName {
  enum class State : std::uint8_t {
    Pending,      // no lookup has ended yet: who asks waits
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
