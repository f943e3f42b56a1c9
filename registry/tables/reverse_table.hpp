// SPDX-License-Identifier: Apache-2.0
// The hosts of each address, for PTR queries.
//
// Control thread; what it publishes is for any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

class ReverseTable {
 public:
  // Notes that a namespace's record of the host (exact, no wildcard) has changed; null = none.
  // Several namespaces' records may have an address: the host is counted once for each.
  void note(std::string_view host, const ServiceRecord* before, const ServiceRecord* after);
  // Applies what has been noted.
  void apply();
  void publish_to(Snapshot& snapshot) const { snapshot.reverse = entries_; }

 private:
  struct Change {
    std::uint64_t address_hash;
    bool removed;  // after what is added
    AddressUse use;
    auto operator<=>(const Change&) const = default;
  };

  HashTrie<ReverseEntry> entries_;
  std::vector<Change> noted_;
};

}  // namespace meshdns::registry
