// SPDX-License-Identifier: Apache-2.0
// The hosts: their records, the marks of those that one commit derives again, and the tables of
// claimed names and of members, on which hosts depend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/name_owners.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// A host in one namespace: the key of a record.  The order is that of the namespaces' symbols, not
// of their names: the hosts of one namespace are neighbours.
struct HostKey {
  SymbolRef ns;
  std::string host;
  friend bool operator<(const HostKey& a, const HostKey& b) {
    return a.ns.get() != b.ns.get() ? a.ns.get() < b.ns.get() : a.host < b.host;
  }
  friend bool operator==(const HostKey& a, const HostKey& b) {
    return a.ns.get() == b.ns.get() && a.host == b.host;
  }
};

struct HostKeyHash {
  std::size_t operator()(const HostKey& key) const {
    return hash_bytes(key.host) ^ reinterpret_cast<std::uintptr_t>(key.ns.get());
  }
};

inline bool is_wildcard(std::string_view host) { return host.starts_with("*."); }

// The changed sources of one host in one namespace.  The last change of a source wins.
struct SourceChange {
  void note(const StoredRef& source, bool is_added);
  std::vector<StoredRef> added;
  std::vector<StoredRef> removed;
};

// The hosts that one commit must derive again, and the sources that each of them gains or loses.
// Control thread.
class HostMarks {
 public:
  // A null `source` means another change of the host.
  void mark(const SymbolRef& ns, std::string_view host, StoredRef source = {}, bool added = false);
  void mark(const HostKey& key) { mark(key.ns, key.host); }
  bool empty() const { return marks_.empty(); }

  // Visits each marked host once and forgets the marks.  The namespaces of one host are neighbours,
  // in the order of their symbols.  Names of the cluster set come last, since they are derived from
  // others.
  void take(const std::function<void(const HostKey&, const SourceChange&)>& visit);

 private:
  struct Mark {
    SymbolRef ns;
    std::string_view host;  // in texts_
    StoredRef source;
    bool added = false;
  };
  // Vectors, not a map: with 100,000 hosts the nodes of a map would fragment the heap.
  std::pmr::monotonic_buffer_resource texts_;
  std::vector<Mark> marks_;
};

// The owners of names, and the hosts that claim something of them (`mesh.claims: strict`).  The
// rights of a host change when a namespace or Service that it names is added or removed.
//
// Control thread.
class ClaimantTable {
 public:
  // An object is added (`add`) or removed.  Calls `changed` for the hosts whose claims must be
  // decided again.
  void note_owner(const Resource& resource, bool add,
                  const std::function<void(const HostKey&)>& changed);
  // A host of an object with claims is added or removed.
  void note_claimant(const HostKey& host, bool add);
  const NameOwners& owners() const { return owners_; }

 private:
  NameOwners owners_;
  // By the inputs of claim_of(): the hosts, with the number of their objects.
  std::map<std::string, std::map<HostKey, std::uint32_t>, std::less<>> claimants_;
};

// The records of all hosts, exact and wildcard, for lookups.
//
// Control thread; any thread may read the published data.
class HostTable {
 public:
  // `host`: exact, or "*.suffix".  Null: no namespace has it.
  const HostEntry* find(std::string_view host) const;
  // Null: the namespace has no such host.
  Ref<const ServiceRecord> find(const HostKey& key) const;

  // The new record of a namespace; null removes it.
  struct Replacement {
    SymbolRef ns;
    Ref<const ServiceRecord> record;
  };
  // Replaces records of the host, all at once: the work is that of all namespaces that have the
  // host.  Returns their number.  REQUIRES: each namespace once, in the order of the symbols.
  std::size_t put(std::string_view host, std::span<const Replacement> replacements);

  // Visits all hosts, in any order.
  void for_each(const std::function<void(const HostEntry&)>& visit) const;
  // Visits the exact hosts of which `use` may speak.
  void for_each(const AddressUse& use, const std::function<void(const HostEntry&)>& visit) const;
  void publish_to(Snapshot& snapshot) const;

 private:
  HashTrie<HostEntry> hosts_;
  HashTrie<HostEntry> wildcards_;  // by the suffix
  NameFilter wildcard_suffixes_;
};

// Hosts that ServiceEntries claim and that are the short name of a Service's member,
// "db-0.db.shop", which is an endpoint or, in a name table, a host of its own. Most claimed hosts
// of three labels are not, and must not cost a query the look at a Service: so it is found out
// here, when either of the two comes or goes.
//
// Control thread.
class MemberTable {
 public:
  // REQUIRES: both outlive the table.
  MemberTable(const HostTable& hosts, const MeshSettings& settings)
      : hosts_(hosts), settings_(settings) {}

  // Returns whether a Service has a member of which `host` is the short name.
  bool is_member(std::string_view host) const;

  // The host's record has changed (null = none).  Calls `visit` for each claimed host for which
  // is_member() may have changed.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after,
                const std::function<void(const HostKey&)>& visit);

 private:
  void count(const ServiceRecord* record, std::string_view host, int difference);
  void visit_members(std::string_view service, const ServiceRecord* record,
                     const std::function<void(const HostKey&)>& visit) const;

  const HostTable& hosts_;
  const MeshSettings& settings_;
  // The last labels of claimed hosts with three labels: hardly any of them is a namespace, and only
  // the Services of namespaces among them are looked at.
  TextMap<std::uint32_t> tails_;
};

}  // namespace meshdns::registry
