// SPDX-License-Identifier: Apache-2.0
// The names above hosts, without the root, and those between addresses and the declared reverse
// zones.  They exist because they have names below them (RFC 4592, section 2.2.2), for clients that
// see one of the hosts.
//
// Control thread; any thread may read the published data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/tables/host_table.hpp"

namespace meshdns::registry {

class NonTerminalTable {
 public:
  // Scopes of one name that are published.  A top-level domain may have a scope of every namespace;
  // a client that sees none of so many is taken to see one.
  static constexpr std::size_t kMaxPublished = 1025;

  // The namespace's record of a host has changed; null = none.  Hosts outside of the cluster domain
  // that are forwarded have no part in it.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after,
                std::string_view cluster_domain);
  // The same for the reverse names of the records' addresses in `zones`: prefixes of 8 and 16 bits
  // of IPv4, and is_counted_prefix() of IPv6.  The names below the longest ones can be looked up
  // address by address.  Their scopes name no namespace.
  void exchange_addresses(const ServiceRecord* before, const ServiceRecord* after,
                          std::span<const std::string> zones);
  void publish_to(Snapshot& snapshot) const { snapshot.non_terminals = entries_; }

 private:
  // Number of services below a name with equal exports.
  struct ScopeCount {
    ExportScope scope;
    std::uint32_t records;
  };

  static std::vector<ScopeCount>::iterator place_of(const ExportScope& scope,
                                                    std::vector<ScopeCount>& counts);
  void count(std::string_view name, const std::optional<ExportScope>& before,
             const std::optional<ExportScope>& after);
  void put(std::string_view name, const std::vector<ScopeCount>& counts);

  TextMap<std::vector<ScopeCount>> counts_;
  HashTrie<NonTerminal> entries_;
};

}  // namespace meshdns::registry
