// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/derive.hpp"

#include <algorithm>
#include <cassert>
#include <functional>

#include "registry/base/counted.hpp"
#include "registry/base/each_once.hpp"
#include "registry/derive/deriver.hpp"
#include "registry/model/entry_endpoints.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {
namespace {

// Covers all members in which lists may differ: comparing unequal lists could take long.
std::uint64_t hash_of_list(const EndpointList& list) {
  std::uint64_t hash = list.entries.size();
  const auto add = [&](std::uint64_t value) { hash = hash_detail::mix(hash ^ value, ~value) + 1; };
  for (const EndpointEntry& entry : list.entries) {
    add(std::hash<IpAddress>()(entry.address));
    add(std::uint64_t{entry.weight} << 18 | std::uint64_t{entry.subset} << 2 |
        (entry.ready ? 2U : 0U) | (entry.resolved ? 1U : 0U));
    add(std::hash<const Symbol*>()(entry.network.get()));
    add(std::hash<const Symbol*>()(entry.cluster.get()));
    add(hash_bytes(entry.hostname) + 3 * hash_bytes(entry.pod_name) +
        5 * hash_bytes(entry.node_name));
  }
  for (const auto& ports : list.ports) add(std::hash<const PortList*>()(ports.get()));
  return hash;
}

}  // namespace

Ref<const EndpointList> EndpointLists::complete(std::unique_ptr<EndpointList> list,
                                                bool pod_names) {
  if (list->entries.size() < EndpointIndex::kWorthwhile)
    return Ref<const EndpointList>(list.release());
  const std::uint64_t hash = hash_of_list(*list);
  const auto [begin, end] = lists_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->entries == list->entries && it->second->ports == list->ports &&
        it->second->near == list->near)
      return it->second;
  list->index = EndpointIndex(list->entries, pod_names);
  return lists_.emplace(hash, Ref<const EndpointList>(list.release()))->second;
}

// Names are resolved for each namespace, and a short list costs less than its key.
bool EndpointLists::may_keep(const ServiceEntry& entry) {
  return !has_endpoint_names(entry) &&
         (entry.workload_selector || entry.endpoints.size() >= EndpointIndex::kWorthwhile);
}

// Returns a text of everything that the endpoints depend on.
std::string EndpointLists::key_of(const ServiceEntry& entry, TrafficDistribution distribution) {
  ServiceEntry essence;
  essence.meta.ns = entry.meta.ns;
  essence.meta.network = entry.meta.network;
  essence.meta.cluster = entry.meta.cluster;
  essence.ports = entry.ports;
  essence.resolution = entry.resolution;
  essence.endpoints = entry.endpoints;
  essence.workload_selector = entry.workload_selector;
  essence.traffic_distribution = distribution;
  std::string key;
  encode_resource(essence, key);
  return key;
}

Ref<const EndpointList> EndpointLists::kept(const std::string& key) const {
  const auto found = alike_.find(key);
  return found == alike_.end() ? Ref<const EndpointList>() : found->second;
}

void EndpointLists::keep(std::string key, const Ref<const EndpointList>& list) {
  if (list->entries.size() < EndpointIndex::kWorthwhile || key_octets_ + key.size() > kMaxKeyOctets)
    return;
  key_octets_ += key.size();
  alike_.emplace(std::move(key), list);
}

EndpointAddresses EndpointLists::addresses(const EndpointList& list) {
  if (list.entries.size() < EndpointIndex::kWorthwhile) return addresses_of(list, gateways_.get());
  const auto [kept, is_new] = addresses_.try_emplace(&list);
  if (is_new) kept->second = addresses_of(list, gateways_.get());
  return kept->second;
}

Sources decode_sources(std::span<const StoredRef> stored, DecodedResources& decoded) {
  Sources sources;
  sources.items.reserve(stored.size());
  for (const auto& s : stored) sources.items.push_back(decoded.of(s));
  std::ranges::sort(sources.items, [](const auto& a, const auto& b) {
    const ObjectMeta& x = meta_of(a->resource());
    const ObjectMeta& y = meta_of(b->resource());
    if (is_older(x, y)) return true;
    if (is_older(y, x)) return false;
    return kind_of(a->resource()) < kind_of(b->resource());
  });
  return sources;
}

Ref<const ServiceRecord> Deriver::run(std::span<const StoredRef> stored) {
  const Sources sources = decode_sources(stored, tables_.decoded);
  if (const PartList parts = parts_of(sources); parts.parts.size() > 1)
    return merge_parts(sources, parts);
  return derive(sources);
}

Ref<const ServiceRecord> Deriver::derive(const Sources& sources) {
  auto services = services_of(sources);
  leave_out_manifests(services);
  const auto entries = sources.all<ServiceEntry>();
  if (const auto imports = sources.all<ServiceImport>(); !imports.empty()) {
    from_imports(imports, sources.all<EndpointSlice>());
  } else if (const auto exports = sources.all<ServiceExport>(); !exports.empty()) {
    from_exports(exports);
  } else if (!services.empty()) {
    record_->provider = Provider::Kubernetes;
    auto slices = sources.all<EndpointSlice>();
    const auto united = answering(services);
    leave_out_slices_of_others(services, united, slices);
    from_services(united, entries, slices);
  } else if (const auto names = sources.all<NameTableEntry>(); !names.empty()) {
    from_name_table(names);
  } else if (!entries.empty()) {
    from_service_entries(entries);
  } else if (const auto claims = gateway_claims(sources); !claims.empty()) {
    from_gateways(claims);
  } else {
    record_->placeholder = true;
  }
  keep_sources(sources);
  return finish();
}

Stored<KubeService> Deriver::services_of(const Sources& sources) const {
  auto services = sources.all<KubeService>();
  std::erase_if(services, [this](const auto& service) {
    return is_gateway_claim(*service.second->stored());
  });
  return services;
}

void Deriver::keep_sources(const Sources& sources) {
  // The one that names the record comes first: a Service before the entries that decorate it, all
  // before endpoint objects.
  std::vector<StoredRef> order;
  for (const auto& item : sources.items) order.push_back(item->stored());
  const auto rank = [this](const StoredRef& s) {
    if (is_gateway_claim(*s)) return s == answering_claim_ ? 5 : 6;
    switch (s->kind()) {
      case Kind::ServiceImport:
        return 0;
      case Kind::Service:
      case Kind::ServiceExport:
        return 1;
      case Kind::NameTableEntry:
        return 2;
      case Kind::ServiceEntry:
        return 3;
      default:
        return 4;
    }
  };
  std::ranges::stable_sort(order, {}, rank);
  record_->source = order.front();
  details_.more_sources.assign(order.begin() + 1, order.end());
  has_details_ |= order.size() > 1;
}

Ref<const ServiceRecord> Deriver::finish() {
  if (!has_details_) return record_;
  if (auto ips = cluster_ips())
    record_->details = std::move(ips);
  else
    record_->details = std::make_unique<const Details>(std::move(details_));
  return record_;
}

std::unique_ptr<const ClusterIps> Deriver::cluster_ips() {
  const AddressSet& all = details_.addresses;
  const bool has_more = !all.v6.empty() || !all.v4_weights.empty() || details_.endpoints ||
                        details_.parts || !details_.by_network.empty() || !details_.alias.empty() ||
                        !details_.short_name.empty() || !details_.resolved_names.empty() ||
                        !details_.notes.empty() || details_.ttl != 0;
  // Fewer addresses in all: clusters share one.
  if (has_more || details_.by_cluster.empty() || all.v4.size() != details_.by_cluster.size())
    return nullptr;
  auto ips = std::make_unique<ClusterIps>();
  for (const ScopedAddresses& scope : details_.by_cluster) {
    if (scope.addresses.v4.size() != 1) return nullptr;
    ips->clusters.push_back(scope.cluster);
    ips->v4.push_back(scope.addresses.v4.front());
  }
  ips->more_sources = std::move(details_.more_sources);
  ips->clusters.shrink_to_fit();
  ips->v4.shrink_to_fit();
  return ips;
}

void Deriver::set_addresses(AddressSet set) {
  if (set.v4.size() == 1 && set.v6.empty() && details_.by_network.empty() &&
      details_.by_cluster.empty()) {
    record_->has_single_v4 = true;
    record_->single_v4 = set.v4.front();
  } else if (!set.empty()) {
    details().addresses = std::move(set);
  }
}

void Deriver::set_ports(const std::vector<ServicePort>& ports) {
  if (ports.empty()) return;
  record_->ports = tables_.ports.intern(ports);
}

Ref<const ExportSet> Deriver::exports_of(const ExportTo& declared, Visibility narrowed) const {
  const ExportTo& effective = declared.empty() ? settings_.default_export_to : declared;
  const auto has = [&](std::string_view word) {
    return std::ranges::find(effective, word) != effective.end();
  };
  const std::string_view own = ns_->text();
  const bool nobody = has("~") || narrowed == Visibility::None;
  if (has("*") && narrowed == Visibility::Public) return {};  // "*" anywhere: the rest is ignored
  auto* set = new ExportSet;
  Ref<const ExportSet> exports(set);
  if (has("*")) {
    // Narrowed: "*" has become the own namespace, or none.
    if (narrowed == Visibility::Namespace) set->namespaces.push_back(ns_);
    return exports;
  }
  if (nobody) return exports;
  for (const auto& word : effective) {
    const std::string_view name = word == "." ? own : std::string_view(word);
    if (narrowed == Visibility::Namespace && name != own) continue;
    set->namespaces.push_back(tables_.symbols.intern(name));
  }
  sort_each_once(set->namespaces, &SymbolRef::get);
  return exports;
}

Visibility Deriver::entry_visibility() const {
  const auto& policy_list = settings_.service_entry_visibility;
  if (policy_list.policies.empty() && policy_list.default_visibility == Visibility::Public)
    return Visibility::Public;
  const Labels* labels = tables_.namespaces.labels_of(ns_->text());
  static const Labels kNone;
  for (const auto& policy : policy_list.policies)
    if (std::ranges::all_of(policy.namespace_selectors, [&](const LabelSelector& selector) {
          return selects(selector, labels == nullptr ? kNone : *labels);
        }))
      return policy.visibility;
  return policy_list.default_visibility;
}

void Deriver::answer_endpoints() {
  if (!details_.endpoints) return;
  EndpointAddresses addresses = context_.lists.addresses(*details_.endpoints);
  if (!addresses.by_network.empty()) details().by_network = std::move(addresses.by_network);
  if (addresses.networks_left_out != 0)
    details().notes.push_back("endpoints of " + counted(addresses.networks_left_out, "network") +
                              " ignored for clients there: the service has too many "
                              "networks and endpoints without one");
  if (!addresses.all.empty()) record_->answer = AnswerKind::Endpoints;
  set_addresses(std::move(addresses.all));
}

Ref<const ServiceRecord> derive_record(const SymbolRef& ns, std::string_view host,
                                       std::span<const StoredRef> sources, DeriveContext& context) {
  assert(!sources.empty());
  return Deriver(ns, host, context).run(sources);
}

}  // namespace meshdns::registry
