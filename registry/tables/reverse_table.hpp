// SPDX-License-Identifier: Apache-2.0
// The hosts of each address, for PTR queries.
//
// Control thread; any thread may read the published data.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

// The addresses by which PTR finds the record; null = none.  Sorted, each once.
std::vector<IpAddress> reverse_addresses(const ServiceRecord* record);

class ReverseTable {
 public:
  // Notes a change of a namespace's record of the host (exact, no wildcard); null = none.  If
  // several namespaces' records have an address, the host is counted once for each.
  void note(std::string_view host, const ServiceRecord* before, const ServiceRecord* after);
  // Applies the noted changes.
  void apply();
  // The uses of the address, without noted changes; null: none.
  const ReverseEntry* find(const IpAddress& address) const;
  void publish_to(Snapshot& snapshot) const { snapshot.reverse = entries_; }

 private:
  struct Change {
    std::uint64_t address_hash;
    bool removed;  // after the additions
    AddressUse use;
    auto operator<=>(const Change&) const = default;
  };

  HashTrie<ReverseEntry> entries_;
  std::vector<Change> noted_;
};

}  // namespace meshdns::registry
