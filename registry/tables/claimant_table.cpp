// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/claimant_table.hpp"

#include <string_view>

namespace meshdns::registry {

void ClaimantTable::note_owner(const Resource& resource, bool add,
                               const std::function<void(const HostKey&)>& changed) {
  const auto visit_claimants = [&](std::string_view key) {
    if (const auto it = claimants_.find(key); it != claimants_.end())
      for (const auto& [host, objects] : it->second) changed(host);
  };
  if (add)
    owners_.add(resource, visit_claimants);
  else
    owners_.remove(resource, visit_claimants);
}

void ClaimantTable::note_claimant(const HostKey& host, bool add) {
  for (const std::string_view key : owner_keys_of(host.host)) {
    if (add) {
      ++claimants_[std::string(key)][host];
      continue;
    }
    const auto hosts = claimants_.find(key);
    if (hosts == claimants_.end()) continue;
    if (const auto it = hosts->second.find(host); it != hosts->second.end() && --it->second == 0)
      hosts->second.erase(it);
    if (hosts->second.empty()) claimants_.erase(hosts);
  }
}

}  // namespace meshdns::registry
