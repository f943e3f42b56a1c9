// SPDX-License-Identifier: Apache-2.0
#include "registry/host_changes.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace meshdns::registry {
namespace {

// By names, since another registry's symbols are others.
Ref<const ServiceRecord> record_of(const HostTable& hosts, std::string_view host,
                                   std::string_view ns) {
  if (const HostEntry* entry = hosts.find(host))
    for (const ServiceRecord* record : entry->records())
      if (record->ns->text() == ns) return Ref<const ServiceRecord>(record);
  return nullptr;
}

std::set<const HostEntry*> hosts_with(std::span<const IpAddress> addresses,
                                      const Snapshot& snapshot) {
  std::set<const HostEntry*> hosts;
  for (const auto& address : addresses) {
    const std::uint64_t hash = hash_of(address);
    const ReverseEntry* entry = snapshot.reverse.find(
        hash, [&](const ReverseEntry& e) { return e.address_hash() == hash; });
    if (entry == nullptr) continue;
    for (const AddressUse& use : entry->uses(AddressUse::Kind::Service))
      snapshot.hosts.for_each_candidate(use.host_hash(),
                                        [&](const HostEntry& host) { hosts.insert(&host); });
  }
  return hosts;
}

}  // namespace

void add_changes_of_pods(std::span<const IpAddress> addresses, const Snapshot& snapshot,
                         std::vector<HostChange>& changes) {
  if (addresses.empty()) return;
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const auto& change : changes) known.insert({change.host, change.ns});
  std::vector<HostChange> added;
  for (const HostEntry* entry : hosts_with(addresses, snapshot))
    for (const ServiceRecord* record : entry->records()) {
      if (known.contains({entry->host(), record->ns->text()})) continue;
      const Ref<const ServiceRecord> same(record);
      added.push_back({std::string(entry->host()), std::string(record->ns->text()), same, same});
    }
  std::ranges::move(added, std::back_inserter(changes));
}

void compare_with_former(const HostTable& former, const HostTable& now,
                         std::vector<HostChange>& changes) {
  for (auto& change : changes) change.before = record_of(former, change.host, change.ns);
  former.for_each([&](const HostEntry& entry) {
    for (const ServiceRecord* record : entry.records())
      if (!record_of(now, entry.host(), record->ns->text()))
        changes.push_back({std::string(entry.host()), std::string(record->ns->text()),
                           Ref<const ServiceRecord>(record), nullptr});
  });
}

}  // namespace meshdns::registry
