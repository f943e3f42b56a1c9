// SPDX-License-Identifier: Apache-2.0
// The records of all hosts, exact and wildcard, for lookups.
//
// Control thread; any thread may read the published data.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/tables/host_key.hpp"

namespace meshdns::registry {

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

}  // namespace meshdns::registry
