// SPDX-License-Identifier: Apache-2.0
// Zones that are empty everywhere outside of somebody's own network and that this host therefore
// answers itself: the reverse names of private and special addresses (RFC 6303 and IANA's registry
// of locally-served zones), and resolver.arpa (RFC 9462).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/decision.hpp"
#include "dnsd/config/config.hpp"

namespace meshdns::dnsd {

// Immutable; any thread.  Decisions refer to it.
class LocallyServedZones {
 public:
  // All zones, but for what the configuration sends to an upstream server.
  explicit LocallyServedZones(const UpstreamConfig& config);

  // Returns the answer for a name that nobody here knows; nullopt: it is in none of the zones, or
  // forwarded.
  std::optional<Decision> decide(const registry::View& view, const Asked& asked) const {
    if (!asked.name.ends_with(".arpa")) [[likely]]
      return {};
    return decide_arpa(view, asked);
  }

 private:
  std::optional<Decision> decide_arpa(const registry::View& view, const Asked& asked) const;
  // The zone that the name is at or below; empty: none, or it is forwarded.
  std::string_view zone_of(std::string_view name) const;
  bool is_above_forwarded(std::string_view name) const;

  std::vector<std::string> zones_;      // sorted
  std::vector<std::string> forwarded_;  // canonical zone names below arpa
};

// The zones themselves, sorted.
std::vector<std::string> locally_served_zones();

}  // namespace meshdns::dnsd
