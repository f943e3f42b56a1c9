// SPDX-License-Identifier: Apache-2.0
// The records of all hosts, exact and wildcard, for lookups.
//
// Control thread; any thread may read the published data.
#pragma once

#include <functional>
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

  // Replaces the namespace's record of the host by `record`; null removes it.  Returns the number
  // of namespaces that have the host.
  std::size_t put(const HostKey& key, const Ref<const ServiceRecord>& record);

  // Visits all hosts, in any order.
  void for_each(const std::function<void(const HostEntry&)>& visit) const;
  void publish_to(Snapshot& snapshot) const;

 private:
  HashTrie<HostEntry> hosts_;
  HashTrie<HostEntry> wildcards_;  // by the suffix
};

}  // namespace meshdns::registry
