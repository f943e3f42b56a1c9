// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/service_record.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "registry/base/each_once.hpp"
#include "registry/base/enum_text.hpp"
#include "registry/base/hash.hpp"

namespace meshdns::registry {
namespace {

AddressView view_of(const AddressSet& set) {
  return {set.v4, set.v6, set.v4_weights, set.v6_weights, set.places.get()};
}

// The addresses of the client's own scope, or those of any when it names none.
const AddressSet* find_scope(const std::vector<ScopedAddresses>& scopes, const Symbol* network,
                             const Symbol* cluster) {
  for (const auto& scope : scopes)
    if ((!scope.network || scope.network.get() == network) &&
        (!scope.cluster || scope.cluster.get() == cluster))
      return &scope.addresses;
  return nullptr;
}

std::uint64_t hash_of(const std::vector<ServicePort>& ports) {
  std::uint64_t hash = ports.size();
  for (const auto& port : ports) {
    const auto numbers = std::uint64_t{port.number} << 16 | port.target_port;
    hash = hash_detail::mix(hash ^ hash_bytes(port.name), hash_bytes(port.protocol) ^ numbers) + 1;
  }
  return hash;
}

}  // namespace

std::string_view to_string(Provider provider) {
  return enum_text<Provider::Gateway>(
      provider, {"Kubernetes", "MultiCluster", "NameTable", "ServiceEntry", "Gateway"});
}

std::string_view to_string(AnswerKind kind) {
  return enum_text<AnswerKind::Unresolvable>(
      kind, {"vips", "endpoints", "alias", "no address", "no ready endpoints", "forward", "pending",
             "unresolvable"});
}

AddressView ServiceRecord::addresses(const Symbol* network, const Symbol* cluster) const {
  if (has_single_v4) return {{&single_v4, 1}, {}, {}, {}};
  const Details* const all = details.get();
  if (all == nullptr) {
    const ClusterIps* const ips = details.cluster_ips();
    return ips == nullptr ? AddressView{} : AddressView{ips->of(cluster), {}, {}, {}};
  }
  if (network != nullptr && !all->by_network.empty()) {
    const AddressSet* scoped = find_scope(all->by_network, network, nullptr);
    return scoped == nullptr ? AddressView{} : view_of(*scoped);
  }
  if (cluster != nullptr && !all->by_cluster.empty())
    if (const AddressSet* scoped = find_scope(all->by_cluster, nullptr, cluster))
      return view_of(*scoped);
  return view_of(all->addresses);
}

namespace {

bool is_among(const Symbol* client_ns, const ExportSet* exports) {
  if (exports == nullptr) return true;
  if (client_ns == nullptr) return false;
  return std::ranges::binary_search(exports->namespaces, client_ns, {}, &SymbolRef::get);
}

}  // namespace

std::span<const ScopedAddresses> ServiceRecord::addresses_by_network() const {
  const Details* const own = details.get();
  return own == nullptr ? std::span<const ScopedAddresses>() : own->by_network;
}

const std::vector<std::string>& ServiceRecord::resolved_names() const {
  static const std::vector<std::string> kNone;
  const Details* const own = details.get();
  return own == nullptr ? kNone : own->resolved_names;
}

std::vector<ScopedAddresses> ServiceRecord::addresses_by_cluster() const {
  if (details) return details->by_cluster;
  std::vector<ScopedAddresses> scopes;
  if (const ClusterIps* const ips = details.cluster_ips())
    for (std::size_t i = 0; i < ips->clusters.size(); ++i) {
      AddressSet own;
      own.v4 = {ips->v4[i]};
      scopes.push_back({{}, ips->clusters[i], std::move(own)});
    }
  return scopes;
}

PortList::PortList(std::vector<ServicePort> list) : ports(std::move(list)) {
  for (const ServicePort& port : ports) numbers.push_back(port.number);
  sort_each_once(numbers);
}

bool ServiceRecord::is_exported_to(const Symbol* client_ns) const {
  return is_among(client_ns, exports.get());
}

bool ServiceRecord::is_claim() const {
  if (provider == Provider::NameTable) return !details || details->short_name.empty();
  return !is_of_cluster();
}

bool ExportScope::includes(const Symbol* client_ns) const {
  return is_among(client_ns, exports.get());
}

bool operator==(const ExportScope& a, const ExportScope& b) {
  if (a.ns != b.ns || !a.exports != !b.exports) return false;
  return !a.exports || a.exports->namespaces == b.exports->namespaces;
}

std::string EndpointList::label_of(const EndpointEntry& entry, bool endpoint_pod_names) {
  if (!entry.hostname.empty()) return entry.hostname;
  if (endpoint_pod_names && !entry.pod_name.empty() && entry.pod_name.size() < 64)
    return entry.pod_name;
  std::string label = entry.address.to_string();
  std::ranges::replace(label, '.', '-');
  std::ranges::replace(label, ':', '-');
  if (label.ends_with('-')) label += '0';
  return label;
}

RecordIndex::RecordIndex(std::span<const Ref<const ServiceRecord>> records) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ServiceRecord& record = *records[i];
    const auto position = static_cast<Position>(i);
    if (record.placeholder) continue;
    by_namespace.push_back({record.ns.get(), position});
    if (const ServiceParts* parts = record.parts())
      for (const auto& part : parts->all()) add_export(*part, position);
    else
      add_export(record, position);
  }
  std::ranges::sort(by_namespace, {}, &Keyed::ns);
  sort_each_once(by_export, [](const Keyed& k) { return std::pair(k.ns, k.position); });
}

void RecordIndex::add_export(const ServiceRecord& record, Position position) {
  if (record.is_public()) {
    if (is_public.empty() || is_public.back() != position) is_public.push_back(position);
    return;
  }
  for (const SymbolRef& ns : record.exports->namespaces) by_export.push_back({ns.get(), position});
}

const RecordIndex::Position* RecordIndex::own(const Symbol* ns) const {
  const auto found = std::ranges::lower_bound(by_namespace, ns, {}, &Keyed::ns);
  return found != by_namespace.end() && found->ns == ns ? &found->position : nullptr;
}

std::span<const RecordIndex::Keyed> RecordIndex::exported_to(const Symbol* client_ns) const {
  return std::ranges::equal_range(by_export, client_ns, {}, &Keyed::ns);
}

Ref<const HostEntry> HostEntry::create(std::string_view host,
                                       std::span<const Ref<const ServiceRecord>> records) {
  assert(host.size() <= kMaxHostSize);
  records = records.first(std::min<std::size_t>(records.size(), kMaxRecords));
  const bool has_index = records.size() >= kWorthAnIndex;
  auto index = has_index ? std::make_unique<const RecordIndex>(records) : nullptr;
  const std::size_t in_front = has_index ? sizeof(const RecordIndex*) : 0;
  auto* memory = static_cast<char*>(std::malloc(
      in_front + sizeof(HostEntry) + records.size() * sizeof(ServiceRecord*) + host.size()));
  if (memory == nullptr) throw std::bad_alloc();
  if (has_index) new (memory) const RecordIndex*(index.release());
  auto* entry = new (memory + in_front) HostEntry(records.size(), host.size());
  auto** out = reinterpret_cast<const ServiceRecord**>(entry + 1);
  for (const auto& record : records) {
    record->add_ref();
    *out++ = record.get();
  }
  std::memcpy(static_cast<void*>(out), host.data(), host.size());
  return Ref<const HostEntry>(entry);
}

void HostEntry::destroy(const HostEntry* entry) {
  for (const ServiceRecord* record : entry->records()) {
    const Ref<const ServiceRecord> last(record);
    record->drop_ref();
  }
  const std::unique_ptr<const RecordIndex> index(entry->index());
  auto* const memory = reinterpret_cast<char*>(const_cast<HostEntry*>(entry));  // NOLINT
  entry->~HostEntry();
  std::free(memory - (index ? sizeof(const RecordIndex*) : 0));
}

Ref<const PortList> PortTable::intern(const std::vector<ServicePort>& ports) {
  const std::uint64_t hash = hash_of(ports);
  const auto [begin, end] = lists_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->ports == ports) return it->second;
  if (lists_.size() >= sweep_at_) sweep();
  return lists_.emplace(hash, Ref<const PortList>(new PortList(ports)))->second;
}

void PortTable::sweep() {
  std::erase_if(lists_, [](const auto& item) { return item.second->is_unique(); });
  sweep_at_ = 2 * lists_.size() + 1024;
}

}  // namespace meshdns::registry
