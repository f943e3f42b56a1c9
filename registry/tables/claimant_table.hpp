// SPDX-License-Identifier: Apache-2.0
// The owners of names, and the hosts that claim something of them (`mesh.claims: strict`).  The
// rights of a host change when a namespace or Service that it names is added or removed.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "registry/derive/name_owners.hpp"
#include "registry/tables/host_key.hpp"

namespace meshdns::registry {

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

}  // namespace meshdns::registry
