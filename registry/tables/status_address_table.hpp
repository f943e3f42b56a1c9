// SPDX-License-Identifier: Apache-2.0
// The entries to which `status.addresses` give each address.  If several hosts have one,
// connections to one of them would lead to another: the oldest entry keeps it.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/tables/decoded_resources.hpp"

namespace meshdns::registry {

// An address of an entry that an older entry keeps.
struct ContestedAddress {
  IpAddress address;
  StoredRef holder;
  StoredRef entry;
};

class StatusAddressTable {
 public:
  // REQUIRES: `decoded` outlives the table.
  explicit StatusAddressTable(DecodedResources& decoded) : decoded_(decoded) {}

  // An entry with these hosts is added (`add`) or removed.  Calls `changed(ns, host)` for the hosts
  // of other entries that get an address by that, or lose it.
  using Changed = std::function<void(std::string_view ns, std::string_view host)>;
  void link(const ServiceEntry& entry, const StoredRef& stored, std::span<const std::string> hosts,
            bool add, const Changed& changed);

  // Returns whether the entry's host has that address of the entry's status, rather than an older
  // entry. Entries of one host and namespace share an address.
  bool has(const IpAddress& address, const StoredRef& entry, std::string_view host) const;
  // At most `most` of them.
  std::vector<ContestedAddress> contested(std::size_t most) const;

 private:
  struct Claimant {
    std::int64_t creation_time = 0;
    StoredRef entry;
    bool operator<(const Claimant& other) const;
  };

  // The hosts of other entries that one call of link() must tell of, each once.
  class Affected {
   public:
    void add(const DecodedRef& entry, const IpAddress& address);
    void tell(const Changed& changed) const;

   private:
    std::map<DecodedRef, std::set<std::string_view>> hosts_;
  };

  void add_claimant(const IpAddress& address, Claimant claimant, Affected& affected);
  void remove_claimant(const IpAddress& address, const Claimant& claimant, Affected& affected);

  DecodedResources& decoded_;
  std::unordered_map<IpAddress, Claimant> holders_;
  std::map<IpAddress, std::set<Claimant>> others_;  // of contested addresses
};

}  // namespace meshdns::registry
