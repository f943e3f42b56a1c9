// SPDX-License-Identifier: Apache-2.0
// The result of the resolver engine for one endpoint name of a namespace.  It is an input of the
// registry: it changes the addresses of endpoint sets, in a transaction like other changes.
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
  // Number of services of the mesh that the addresses came through, one behind the other; one more
  // than kMaxLinks if the name leads back to itself.
  static constexpr std::uint8_t kMaxLinks = 8;
  std::uint8_t links = 0;
  std::vector<std::string> via{};  // the aliases that the name led through, canonical
  std::string reason{};            // NoAddresses, Failed: why; for explanations
  friend bool operator==(const ResolvedName&, const ResolvedName&) = default;
};

}  // namespace meshdns::registry
