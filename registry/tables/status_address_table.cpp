// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/status_address_table.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace meshdns::registry {
namespace {

// The addresses that the entry has by its status, for any of the (sorted) hosts.
std::unordered_set<IpAddress> used_addresses(const ServiceEntry& entry,
                                             std::span<const std::string> hosts) {
  std::unordered_set<IpAddress> addresses;
  if (!has_status_vips(entry)) return addresses;
  for (const StatusAddress& status : entry.status_addresses) {
    const bool is_used =
        status.host.empty() ? !hosts.empty() : std::ranges::binary_search(hosts, status.host);
    if (is_used) addresses.insert(status.value);
  }
  return addresses;
}

// Calls `visit(host)` for each host of the entry that has the address by its status.
template <typename Visit>
void for_each_host(const DecodedResource& decoded, const IpAddress& address, const Visit& visit) {
  const auto& hosts = std::get<ServiceEntry>(decoded.resource()).hosts;
  for (const std::string_view host : decoded.hosts_with(address))
    if (!host.empty())
      visit(host);
    else
      std::ranges::for_each(hosts, visit);
}

}  // namespace

void StatusAddressTable::Affected::add(const DecodedRef& entry, const IpAddress& address) {
  auto& hosts = hosts_[entry];
  for_each_host(*entry, address, [&](std::string_view host) { hosts.insert(host); });
}

void StatusAddressTable::Affected::tell(const Changed& changed) const {
  for (const auto& [entry, hosts] : hosts_)
    for (const std::string_view host : hosts) changed(entry->stored()->ns(), host);
}

bool StatusAddressTable::Claimant::operator<(const Claimant& other) const {
  const auto order = [](const Claimant& c) {
    return std::tuple(c.creation_time, c.entry->ns(), c.entry->name(), c.entry->cluster());
  };
  return order(*this) < order(other);
}

void StatusAddressTable::link(const ServiceEntry& entry, const StoredRef& stored,
                              std::span<const std::string> hosts, bool add,
                              const Changed& changed) {
  if (entry.status_addresses.empty()) return;
  const Claimant claimant{entry.meta.creation_time, stored};
  Affected affected;
  for (const IpAddress& address : used_addresses(entry, hosts)) {
    if (add)
      add_claimant(address, claimant, affected);
    else
      remove_claimant(address, claimant, affected);
  }
  affected.tell(changed);
}

void StatusAddressTable::add_claimant(const IpAddress& address, Claimant claimant,
                                      Affected& affected) {
  const auto [it, is_first] = holders_.try_emplace(address, claimant);
  if (is_first) return;
  if (claimant < it->second) {
    affected.add(decoded_.of(it->second.entry), address);
    std::swap(claimant, it->second);
  }
  others_[address].insert(std::move(claimant));
}

void StatusAddressTable::remove_claimant(const IpAddress& address, const Claimant& claimant,
                                         Affected& affected) {
  const auto holder = holders_.find(address);
  if (holder == holders_.end()) return;
  const auto others = others_.find(address);
  if (holder->second.entry != claimant.entry) {
    if (others == others_.end()) return;
    others->second.erase(claimant);
  } else if (others == others_.end()) {
    holders_.erase(holder);
    return;
  } else {
    holder->second = *others->second.begin();
    others->second.erase(others->second.begin());
    affected.add(decoded_.of(holder->second.entry), address);
  }
  if (others->second.empty()) others_.erase(others);
}

bool StatusAddressTable::has(const IpAddress& address, const StoredRef& entry,
                             std::string_view host) const {
  const auto it = holders_.find(address);
  if (it == holders_.end() || it->second.entry == entry) return true;
  const StoredRef& holder = it->second.entry;
  return holder->ns() == entry->ns() && decoded_.of(holder)->gives(address, host);
}

std::vector<ContestedAddress> StatusAddressTable::contested(std::size_t most) const {
  std::vector<ContestedAddress> result;
  for (const auto& [address, claimants] : others_)
    for (const Claimant& claimant : claimants) {
      if (result.size() == most) return result;
      bool loses = false;
      for_each_host(*decoded_.of(claimant.entry), address,
                    [&](std::string_view host) { loses |= !has(address, claimant.entry, host); });
      if (loses) result.push_back({address, holders_.at(address).entry, claimant.entry});
    }
  return result;
}

}  // namespace meshdns::registry
