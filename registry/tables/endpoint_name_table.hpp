// SPDX-License-Identifier: Apache-2.0
// The names that endpoints are given by (`resolution: DNS`): which hosts use each, and what the
// resolver engine has found it to be.
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
  // Keeps what another table knows of the names.
  void take_resolved(const EndpointNameTable& other) { resolved_ = other.resolved_; }

  // The namespace's record of a host has changed; null = none.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after);
  // The uses that have begun and ceased since the last call, each list sorted.  A name that one
  // host drops and another one of the namespace takes in between goes on as it is; a name that
  // nobody uses any more is forgotten.
  struct Difference {
    std::vector<NameUse> added;
    std::vector<NameUse> removed;
  };
  Difference take_difference();
  // All that is in use now.
  std::set<NameUse> uses() const;

  // Takes what `name` resolves to for the hosts of `ns`, if one uses it, and adds these to `users`.
  void resolve(const SymbolRef& ns, ResolvedName name, std::set<HostKey>& users);
  // Null: not resolved yet.
  const ResolvedName* find(std::string_view name) const;

 private:
  std::unordered_map<std::string, std::set<HostKey>> users_;
  std::unordered_map<std::string, ResolvedName> resolved_;
  std::map<NameUse, int> changed_;  // begun (1), ceased (-1), or as before (0)
};

}  // namespace meshdns::registry
