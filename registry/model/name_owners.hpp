// SPDX-License-Identifier: Apache-2.0
// The owners of names: the known namespaces and Services, and the claim of a host name to the names
// of others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "registry/model/claim_rules.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// Control thread.
class NameOwners {
 public:
  // Counts an object that makes a namespace or a Service known; others change nothing.  Each
  // object is added once and removed once.  `changed` hears of each key (see owner_keys_of) whose
  // existence has changed.
  void add(const Resource& resource, const std::function<void(std::string_view key)>& changed);
  void remove(const Resource& resource, const std::function<void(std::string_view key)>& changed);

  bool has_namespace(std::string_view ns) const { return counts_.contains(ns); }
  bool has_service(std::string_view name_and_ns) const { return counts_.contains(name_and_ns); }

 private:
  void count(const Resource& resource, int difference,
             const std::function<void(std::string_view key)>& changed);

  // "bank": the namespace; "db.bank": the Service.  Neither has the form of the other.
  std::map<std::string, std::uint32_t, std::less<>> counts_;
};

// The claim that an object of `ns` makes with `host` (canonical; "*.suffix" for a wildcard).
Claim claim_of(std::string_view host, std::string_view ns, const MeshSettings& settings,
               const NameOwners& owners);

// The same for a name that such an object gives to a gateway.
Claim gateway_claim_of(std::string_view host, std::string_view ns, const MeshSettings& settings,
                       const NameOwners& owners);

// The namespaces and Services on whose existence claim_of() depends for that host: parts of it.
std::vector<std::string_view> owner_keys_of(std::string_view host);

// Returns whether a client may mean a Service by a name that `host` matches: by a short name, or by
// one that its search list has made.
bool can_be_short_name(std::string_view host, const MeshSettings& settings);

}  // namespace meshdns::registry
