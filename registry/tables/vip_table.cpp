// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/vip_table.hpp"

#include "registry/base/hash.hpp"
#include "registry/model/claim_rules.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {
namespace {

// The addresses that the object claims.
std::vector<IpAddress> claimed_by(const Resource& resource, const MeshSettings& settings) {
  std::vector<IpAddress> addresses;
  if (const auto* entry = std::get_if<ServiceEntry>(&resource)) {
    const bool may_claim = ruling_of(Claim::VipRange, entry->meta.ns, settings) != Ruling::Refused;
    for (const auto& prefix : entry->addresses)
      if (prefix.is_single() && may_claim) addresses.push_back(prefix.address);
    for (const auto& status : entry->status_addresses) addresses.push_back(status.value);
  }
  if (const auto* service = std::get_if<KubeService>(&resource)) return service->cluster_ips;
  if (const auto* import = std::get_if<ServiceImport>(&resource)) return import->ips;
  if (const auto* name = std::get_if<NameTableEntry>(&resource)) return name->ips;
  if (const auto* pod = std::get_if<Pod>(&resource)) return pod->ips;
  return addresses;
}

// Increments or decrements a count; removes it at 0.
void count(auto& counts, const auto& key, bool add) {
  if (add)
    ++counts[key];
  else if (auto it = counts.find(key); it != counts.end() && --it->second == 0)
    counts.erase(it);
}

}  // namespace

VipTable::VipTable(const MeshSettings& settings) : settings_(settings) {
  if (settings.auto_allocate == AutoAllocate::Hash)
    allocator_ = std::make_unique<HashVips>(settings.vip_namespace_quota);
  else
    allocator_ = std::make_unique<NoVips>();
}

void VipTable::set_allocator(std::unique_ptr<VipAllocator> allocator) {
  allocator_ = std::move(allocator);
  has_new_allocator_ = true;
}

std::uint64_t VipTable::digest(const Request& request) {
  const std::uint64_t name = hash_bytes(request.ns + "/" + request.host);
  return hash_bytes(std::to_string(name) + "/" + std::to_string(request.creation_time));
}

void VipTable::claim(const Resource& resource, bool add) {
  if (is_off()) return;
  for (const auto& address : claimed_by(resource, settings_)) {
    if (!settings_.vip_cidr_v4.contains(address) && !settings_.vip_cidr_v6.contains(address))
      continue;
    count(claims_, address, add);
    demand_ += add ? hash_of(address) : -hash_of(address);
  }
}

void VipTable::request(const ServiceEntry& entry, std::span<const std::string> hosts, bool add) {
  if (is_off()) return;
  for (const auto& host : hosts) {
    if (!wants_vip(entry, host)) continue;
    // Istio's hash leaves out wildcards of every resolution.
    if (settings_.auto_allocate == AutoAllocate::Hash && host.starts_with("*")) continue;
    const Request request{entry.meta.creation_time, host, entry.meta.ns};
    count(requests_, request, add);
    demand_ += add ? digest(request) : -digest(request);
  }
}

void VipTable::assign(SymbolTable& symbols, const std::function<void(const HostKey&)>& changed) {
  if (!std::exchange(has_new_allocator_, false) && demand_ == demand_served_) return;
  demand_served_ = demand_;
  std::vector<VipRequest> requests;
  requests.reserve(requests_.size());
  for (const auto& [request, entries] : requests_)
    requests.insert(requests.end(), entries, {request.ns, request.host});
  std::vector<IpAddress> taken;
  for (const auto& [address, objects] : claims_) taken.push_back(address);
  std::unordered_map<HostKey, std::vector<IpAddress>, HostKeyHash> fresh;
  for (const auto& vip : allocator_->assign(requests, taken))
    fresh[{symbols.intern(vip.ns), vip.host}] = {vip.v4, vip.v6};
  for (const auto& [host, addresses] : fresh)
    if (const auto it = assigned_.find(host); it == assigned_.end() || it->second != addresses)
      changed(host);
  for (const auto& [host, addresses] : assigned_)
    if (!fresh.contains(host)) changed(host);
  if (assigned_ != fresh) ++changes_;
  assigned_ = std::move(fresh);
}

std::vector<VipAssignment> VipTable::assignments() const {
  std::vector<VipAssignment> list;
  list.reserve(assigned_.size());
  for (const auto& [host, addresses] : assigned_)
    list.push_back({std::string(host.ns->text()), host.host, addresses.front(), addresses.back()});
  return list;
}

std::vector<IpAddress> VipTable::addresses_of(const HostKey& host) const {
  const auto it = assigned_.find(host);
  return it == assigned_.end() ? std::vector<IpAddress>() : it->second;
}

}  // namespace meshdns::registry
