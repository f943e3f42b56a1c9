// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/status_address_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "registry/derive/derive.hpp"

namespace meshdns::registry {
namespace {

// Calls `visit(address)` for each address that the entry has by its status, for any of the hosts.
template <typename Visit>
void for_each_address(const ServiceEntry& entry, std::span<const std::string> hosts,
                      const Visit& visit) {
  for (const StatusAddress& status : entry.status_addresses) {
    const bool is_used = std::ranges::any_of(hosts, [&](const std::string& host) {
      return (status.host.empty() || status.host == host) && wants_vip(entry, host);
    });
    if (is_used) visit(status.value);
  }
}

// Calls `visit(host)` for each host of the entry that has the address by its status.
template <typename Visit>
void for_each_host(const StoredResource& stored, const IpAddress& address, const Visit& visit) {
  const Resource resource = stored.decode();
  const auto& entry = std::get<ServiceEntry>(resource);
  for (const StatusAddress& status : entry.status_addresses) {
    if (status.value != address) continue;
    for (const std::string& host : entry.hosts)
      if (status.host.empty() || status.host == host) visit(host);
  }
}

void mark(const StoredRef& entry, const IpAddress& address,
          const StatusAddressTable::Changed& changed) {
  for_each_host(*entry, address, [&](const std::string& host) { changed(entry->ns(), host); });
}

}  // namespace

bool StatusAddressTable::Claimant::operator<(const Claimant& other) const {
  const auto order = [](const Claimant& c) {
    return std::tuple(c.creation_time, c.entry->ns(), c.entry->name(), c.entry->cluster());
  };
  return order(*this) < order(other);
}

void StatusAddressTable::link(const ServiceEntry& entry, const StoredRef& stored,
                              std::span<const std::string> hosts, bool add,
                              const Changed& changed) {
  std::vector<IpAddress> addresses;
  for_each_address(entry, hosts, [&](const IpAddress& address) {
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  });
  const Claimant claimant{entry.meta.creation_time, stored};
  for (const IpAddress& address : addresses) {
    if (add)
      add_claimant(address, claimant, changed);
    else
      remove_claimant(address, claimant, changed);
  }
}

void StatusAddressTable::add_claimant(const IpAddress& address, Claimant claimant,
                                      const Changed& changed) {
  const auto [it, is_first] = holders_.try_emplace(address, claimant);
  if (is_first) return;
  if (claimant < it->second) {
    mark(it->second.entry, address, changed);
    std::swap(claimant, it->second);
  }
  others_[address].insert(std::move(claimant));
}

void StatusAddressTable::remove_claimant(const IpAddress& address, const Claimant& claimant,
                                         const Changed& changed) {
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
    mark(holder->second.entry, address, changed);
  }
  if (others->second.empty()) others_.erase(others);
}

bool StatusAddressTable::has(const IpAddress& address, const StoredRef& entry,
                             std::string_view host) const {
  const auto it = holders_.find(address);
  if (it == holders_.end() || it->second.entry == entry) return true;
  const StoredRef& holder = it->second.entry;
  bool is_shared = false;
  if (holder->ns() == entry->ns())
    for_each_host(*holder, address, [&](const std::string& own) { is_shared |= own == host; });
  return is_shared;
}

std::vector<ContestedAddress> StatusAddressTable::contested(std::size_t most) const {
  std::vector<ContestedAddress> result;
  for (const auto& [address, claimants] : others_)
    for (const Claimant& claimant : claimants) {
      if (result.size() == most) return result;
      bool loses = false;
      for_each_host(*claimant.entry, address,
                    [&](const std::string& host) { loses |= !has(address, claimant.entry, host); });
      if (loses) result.push_back({address, holders_.at(address).entry, claimant.entry});
    }
  return result;
}

}  // namespace meshdns::registry
