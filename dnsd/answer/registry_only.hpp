// SPDX-License-Identifier: Apache-2.0
// `mesh.registry_only`: names of the outside for clients whose proxies drop traffic to what they do
// not see (outboundTrafficPolicy REGISTRY_ONLY).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/decision.hpp"
#include "registry/base/hash.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

// Immutable; any thread.
class RegistryOnly {
 public:
  // Names of upstream.zones and of `link_zones`, the domains of this machine's links, are allowed.
  explicit RegistryOnly(const UpstreamConfig& upstream,
                        const std::set<std::string>& link_zones = {});

  // Sets decision.registry_only, and turns a name that is refused into a negative answer.  An
  // alias's target, a reverse name and the names of allowed zones are never refused; nothing is
  // until the policies have been read.  REQUIRES: the decision forwards the question, and
  // Client::is_registry_only.
  void judge(const registry::View& view, const Asked& asked, Decision& decision) const;

 private:
  bool is_allowed(const registry::View& view, std::string_view name) const;
  // Returns whether a name below may be answered, so that the name exists.
  bool has_allowed_below(const registry::View& view, const Asked& asked) const;

  TextSet zones_;
  std::vector<std::uint64_t> ancestors_;  // hashes of the names above them, sorted
};

}  // namespace meshdns::dnsd
