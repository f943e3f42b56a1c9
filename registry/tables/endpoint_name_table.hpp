// SPDX-License-Identifier: Apache-2.0
// The names of endpoints (`resolution: DNS`): the hosts that use each, its addresses as each
// namespace sees them, and the names that a change of a host may concern.
//
// A name may be one of the mesh.  Its addresses then depend on the hosts that a client of
// the namespace finds for it: the name itself, wildcards over it, the Service of which it is a
// short form or below which it lies, and the same for the targets of aliases.  The table is
// ordered by the reversed text of the names, in which all names below a suffix are neighbours.
//
// Control thread.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/tables/host_table.hpp"

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
  void take_resolved(const EndpointNameTable& other);

  // The namespace's record of a host has changed; null = none.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after);
  // Notes the uses whose names the host of `key`, which has changed, may answer.  A host's own name
  // among its endpoints is left out where it sees itself as before: it is looked up outside.
  void note_host(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after,
                 std::string_view cluster_domain);
  // Notes the uses of names below `suffix`.
  void note_below(std::string_view suffix);
  // Notes all uses of the namespace: its clients see other services now.
  void note_namespace(std::string_view ns);
  void note_all() { all_touched_ = true; }
  bool empty() const { return users_.empty(); }

  // The changes since the last call; the lists are sorted.
  struct Difference {
    // The uses that began and ended.  A name that moved from one host to another one of the
    // namespace is in neither list.
    std::vector<NameUse> added;
    std::vector<NameUse> removed;
    // Uses that may have another result in the mesh; none of those that began or ended.
    std::vector<NameUse> touched;
    std::vector<std::string> touched_namespaces;  // all uses of these
    bool all_touched = false;                     // all uses
  };
  // Forgets names that no host uses.
  Difference take_difference();
  // All uses.
  std::set<NameUse> uses() const;
  // The names that the namespace uses, and the namespaces that use any.
  std::vector<std::string> names_of(const SymbolRef& ns) const;
  std::vector<std::string> namespaces() const;

  // The hosts of the namespace that use the name.
  std::vector<std::string> users_of(const SymbolRef& ns, std::string_view name) const;

  // Sets what `name` resolves to for the hosts of `ns` that use it, and adds these to `users`.
  void resolve(const SymbolRef& ns, ResolvedName name, std::set<HostKey>& users);
  // Null: not resolved yet.
  const ResolvedName* find(std::string_view ns, std::string_view name) const;

 private:
  struct UseHash {
    std::size_t operator()(const NameUse& use) const {
      return hash_bytes(use.name) ^ (hash_bytes(use.ns) << 1);
    }
  };
  using Users = std::map<std::string, std::set<HostKey>>;  // by the reversed name

  // Calls `visit` with the key of each host of the namespace that uses the name.
  template <typename Visit>
  void for_each_user(const SymbolRef& ns, std::string_view name, const Visit& visit) const;
  void begin_use(const Users::value_type& name, const NameUse& use, const SymbolRef& ns);
  void end_use(const Users::value_type& name, const NameUse& use, const SymbolRef& ns);
  void forget_result(const NameUse& use);
  void unfollow(const NameUse& use, const std::vector<std::string>& via);
  void note_short_names(const HostKey& key, std::string_view cluster_domain);
  // `except`: a host whose own names are left out; null = none.
  void touch(std::string_view name, const HostKey* except);
  void touch_below(std::string_view suffix, const HostKey* except);
  void touch_users(const Users::value_type& name, const HostKey* except);
  void touch_use(NameUse use);

  Users users_;
  // The uses in order of the namespaces' symbols.
  std::set<std::pair<const Symbol*, const Users::value_type*>> by_namespace_;
  std::map<std::string, std::set<NameUse>> followed_;  // by the reversed target of an alias
  std::unordered_map<NameUse, ResolvedName, UseHash> resolved_;
  std::map<NameUse, int> changed_;  // begun (1), ceased (-1), or as before (0)
  std::set<NameUse> touched_;
  std::set<std::string> touched_namespaces_;
  bool all_touched_ = false;
};

}  // namespace meshdns::registry
