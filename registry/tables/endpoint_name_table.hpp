// SPDX-License-Identifier: Apache-2.0
// The names of endpoints (`resolution: DNS`): the hosts that use each, and its addresses from the
// resolver engine.
//
// Control thread.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/model/resolved_name.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/tables/host_key.hpp"

namespace meshdns::registry {

// A name that endpoint sets of a namespace use.
struct NameUse {
  std::string name;
  std::string ns;
  friend auto operator<=>(const NameUse&, const NameUse&) = default;
};

class EndpointNameTable {
 public:
  // Takes over the addresses of another table.
  void take_resolved(const EndpointNameTable& other) { resolved_ = other.resolved_; }

  // The namespace's record of a host has changed; null = none.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after);
  // Returns the uses that began and ended since the last call; both lists are sorted.  A name that
  // moved from one host to another one of the namespace is in neither list.  Forgets names that no
  // host uses.
  struct Difference {
    std::vector<NameUse> added;
    std::vector<NameUse> removed;
  };
  Difference take_difference();
  // All uses.
  std::set<NameUse> uses() const;

  // Sets the addresses of `name` for the hosts of `ns` that use it, and adds these to `users`.
  void resolve(const SymbolRef& ns, ResolvedName name, std::set<HostKey>& users);
  // Null: not resolved yet.
  const ResolvedName* find(std::string_view name) const;

 private:
  std::unordered_map<std::string, std::set<HostKey>> users_;
  std::unordered_map<std::string, ResolvedName> resolved_;
  std::map<NameUse, int> changed_;  // begun (1), ceased (-1), or as before (0)
};

}  // namespace meshdns::registry
