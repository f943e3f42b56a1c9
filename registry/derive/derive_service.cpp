// SPDX-License-Identifier: Apache-2.0
// Records of Kubernetes Services, and of the names of a cluster set that stand for Services.
#include <algorithm>
#include <iterator>
#include <memory>
#include <unordered_set>

#include "registry/base/host_name.hpp"
#include "registry/derive/deriver.hpp"

namespace meshdns::registry {
namespace {

// Returns whether a Service with that only_family_of() may have the address.
bool is_of_family(const IpAddress& address, std::string_view only) {
  return only.empty() || only == (address.is_v4() ? "IPv4" : "IPv6");
}

}  // namespace

void Deriver::from_services(const Stored<KubeService>& services,
                            const Stored<ServiceEntry>& decorators,
                            const Stored<EndpointSlice>& slices) {
  const KubeService& first = *services.front().first;
  record_->ttl_class = TtlClass::Kubernetes;
  record_->creation_time = first.meta.creation_time;
  record_->exports = exports_of(first.export_to, Visibility::Public);
  set_ports(merged_ports(services));
  // Its clusters decide which clients see it.  Parts are chosen by their own rule.
  record_->split =
      settings_.clusters == ClusterChoice::LocalOnly && !record_->partial &&
      std::ranges::any_of(services, [](const auto& s) { return !s.first->meta.cluster.empty(); });
  if (!decorators.empty())
    details().notes.push_back("decorated by " + decorators.front().second->stored()->label());
  if (first.type == ServiceType::ExternalName) return set_alias(first);
  record_->headless = is_headless(services);
  set_distribution(distribution_of(services, slices));
  add_slices(slices, services);
  if (record_->headless) return answer_endpoints_of_headless();
  answer_cluster_ips(services);
}

bool Deriver::is_usable(const KubeService& service) {
  return service.type != ServiceType::ExternalName ||
         (!service.external_name.empty() && !IpAddress::parse(service.external_name));
}

// Clusters may have Services of several kinds under one name (docs/kubernetes.md, "Several
// clusters"): an alias answers alone, if it is the oldest, and else not at all; cluster IPs come
// before endpoints.
Stored<KubeService> Deriver::answering(Stored<KubeService> services) {
  const auto is_unusable = [](const auto& s) { return !is_usable(*s.first); };
  if (!std::ranges::all_of(services, is_unusable)) std::erase_if(services, is_unusable);
  if (services.empty()) return services;
  if (services.front().first->type == ServiceType::ExternalName)
    services.erase(services.begin() + 1, services.end());
  else
    std::erase_if(services,
                  [](const auto& s) { return s.first->type == ServiceType::ExternalName; });
  if (is_headless(services))
    std::erase_if(services, [](const auto& s) { return !s.first->headless; });
  return services;
}

void Deriver::leave_out_slices_of_others(const Stored<KubeService>& services,
                                         const Stored<KubeService>& answering,
                                         Stored<EndpointSlice>& slices) {
  if (answering.size() == services.size()) return;
  const auto has_cluster = [](const Stored<KubeService>& some, const std::string& cluster) {
    return std::ranges::any_of(some,
                               [&](const auto& s) { return s.first->meta.cluster == cluster; });
  };
  std::erase_if(slices, [&](const auto& slice) {
    const std::string& cluster = slice.first->meta.cluster;
    return has_cluster(services, cluster) && !has_cluster(answering, cluster);
  });
}

bool Deriver::is_headless(const Stored<KubeService>& services) {
  return std::ranges::any_of(services, [](const auto& s) { return s.first->headless; }) &&
         std::ranges::all_of(services, [](const auto& s) { return s.first->cluster_ips.empty(); });
}

// The oldest Service with a ready endpoint decides for headless ones.
TrafficDistribution Deriver::distribution_of(const Stored<KubeService>& services,
                                             const Stored<EndpointSlice>& slices) {
  const auto has_ready = [&](const KubeService& service) {
    return std::ranges::any_of(slices, [&](const auto& slice) {
      return slice.first->meta.cluster == service.meta.cluster &&
             std::ranges::any_of(slice.first->subsets, [&](const auto& subset) {
               return std::ranges::any_of(subset.endpoints, [&](const Endpoint& endpoint) {
                 return endpoint.ready || service.publish_not_ready_addresses;
               });
             });
    });
  };
  const auto found =
      services.size() == 1
          ? services.end()
          : std::ranges::find_if(services, [&](const auto& s) { return has_ready(*s.first); });
  return (found == services.end() ? services.front() : *found).first->traffic_distribution;
}

void Deriver::leave_out_manifests(Stored<KubeService>& services) {
  const std::size_t left_out =
      std::erase_if(services, [](const auto& s) { return s.first->is_manifest; });
  if (left_out > 0)
    details().notes.emplace_back(
        "no clusterIP: a manifest, not an object read from a cluster; the name is treated as "
        "unknown");
}

std::vector<ServicePort> Deriver::merged_ports(const Stored<KubeService>& services) {
  std::vector<ServicePort> ports;
  for (const auto& [service, stored] : services)
    for (const auto& port : service->ports)
      if (std::ranges::none_of(ports, [&](const ServicePort& p) {
            return p.number == port.number && p.protocol == port.protocol && p.name == port.name;
          }))
        ports.push_back(port);
  return ports;
}

void Deriver::set_alias(const KubeService& service) {
  if (!is_usable(service)) {
    record_->placeholder = true;
    return;
  }
  record_->answer = AnswerKind::Alias;
  details().alias = service.external_name;
  if (!service.ports.empty() && settings_.endpoint_answers) add_alias_target(service);
}

// The endpoints of an alias with ports are the addresses of its target, as those of a DNS entry
// are.  Answers lead to the target by name all the same.
void Deriver::add_alias_target(const KubeService& service) {
  ServiceEntry entry;
  entry.meta = service.meta;
  entry.resolution = Resolution::Dns;
  auto list = std::make_unique<EndpointList>();
  list->ports.push_back(tables_.ports.intern(service.ports));
  add_name(service.external_name, entry, 1,
           {.network = {}, .cluster = service.meta.cluster, .is_inside = false}, *list);
  if (!list->entries.empty()) details().endpoints = Ref<const EndpointList>(list.release());
}

void Deriver::answer_cluster_ips(const Stored<KubeService>& services) {
  std::vector<ClusterAddresses> of_clusters;
  for (const auto& [service, stored] : services)
    of_clusters.emplace_back(service->meta.cluster, &service->cluster_ips);
  AddressSet all = take_addresses(of_clusters);
  record_->answer = all.empty() ? AnswerKind::NoAddress : AnswerKind::Vips;
  if (settings_.ignore_empty_service && !has_ready_endpoint())
    record_->answer = AnswerKind::NoReadyEndpoints;
  set_addresses(std::move(all));
}

AddressSet Deriver::take_addresses(const std::vector<ClusterAddresses>& of_clusters) {
  const bool are_several = std::ranges::any_of(
      of_clusters, [&](const auto& each) { return each.first != of_clusters.front().first; });
  AddressSetBuilder all;
  for (const auto& [cluster, addresses] : of_clusters) {
    AddressSetBuilder own;
    for (const IpAddress& address : *addresses) {
      all.add(address);
      own.add(address);
    }
    if (are_several && !own.empty())
      details().by_cluster.push_back({nullptr, tables_.symbols.intern(cluster), own.take()});
  }
  return all.take();
}

bool Deriver::has_ready_endpoint() const {
  return details_.endpoints && std::ranges::any_of(details_.endpoints->entries,
                                                   [](const EndpointEntry& e) { return e.ready; });
}

void Deriver::answer_endpoints_of_headless() {
  answer_endpoints();
  if (record_->answer != AnswerKind::Endpoints) record_->answer = AnswerKind::NoReadyEndpoints;
}

void Deriver::add_slices(const Stored<EndpointSlice>& slices, const Stored<KubeService>& services) {
  const auto is_answered = [&](const auto& item) {
    return record_->headless || !item.first->headless_only;
  };
  auto list = std::make_unique<EndpointList>();
  for (const auto& [slice, stored] : slices) {
    const bool mirrored =
        slice->kind == Kind::Endpoints && std::ranges::any_of(slices, [&](const auto& other) {
          return other.first->kind == Kind::EndpointSlice &&
                 other.first->meta.cluster == slice->meta.cluster;
        });
    if (mirrored || !is_answered(std::pair(slice, stored))) continue;
    const auto own = std::ranges::find_if(services, [&](const auto& service) {
      return service.first->meta.cluster == slice->meta.cluster;
    });
    add_slice(*slice, own == services.end() ? nullptr : own->first, *list);
  }
  for (const auto& [service, stored] : services) add_selected_workloads(*service, *list);
  if (list->entries.empty() && std::ranges::none_of(slices, is_answered)) return;
  list->near = near_rule(*list);
  list->index = EndpointIndex::of_large(list->entries, settings_.endpoint_pod_names);
  details().endpoints = Ref<const EndpointList>(list.release());
}

// As istiod does: a WorkloadEntry whose address is a name, or that a slice or another Service has
// added, adds nothing.
void Deriver::add_selected_workloads(const KubeService& service, EndpointList& list) {
  if (service.selector.empty() || !tables_.service_selectors.has_workloads(ns_)) return;
  const std::string_view only = only_family_of(service);
  std::unordered_set<IpAddress> known;
  for (const EndpointEntry& entry : list.entries) known.insert(entry.address);
  for (const DecodedRef& decoded : tables_.selections_of_services.of(ns_, service.selector)) {
    const auto& workload = std::get<WorkloadEntry>(decoded->resource());
    const WorkloadSpec& spec = workload.spec;
    const auto address = IpAddress::parse(spec.address);
    if (!address || address->is_unspecified() || !is_of_family(*address, only) ||
        !known.insert(*address).second)
      continue;
    const ObjectMeta& meta = workload.meta;
    const NetworkScope scope{.network = spec.network.empty() ? meta.network : spec.network,
                             .cluster = meta.cluster};
    EndpointEntry& added = add_address(*address, scope, list);
    added.ready = workload.healthy || service.publish_not_ready_addresses;
    added.place = place_of_spec(spec);
    added.subset = static_cast<std::uint16_t>(list.ports.size());
    list.ports.push_back(tables_.ports.intern(ports_at(service.ports, spec.ports)));
    if (record_->provider == Provider::MultiCluster) append_cluster_id(meta.cluster, added);
  }
}

void Deriver::add_slice(const EndpointSlice& slice, const KubeService* service,
                        EndpointList& list) {
  const bool all_ready = service != nullptr && service->publish_not_ready_addresses;
  const std::string_view only = service == nullptr ? "" : only_family_of(*service);
  const bool in_set = record_->provider == Provider::MultiCluster;
  const std::string& id =
      in_set && !slice.source_cluster.empty() ? slice.source_cluster : slice.meta.cluster;
  // The network of the importing cluster says nothing about another one's.
  const bool is_own = id == slice.meta.cluster;
  const NetworkScope scope{
      .network = is_own ? std::string_view(slice.meta.network) : std::string_view(), .cluster = id};
  const SymbolRef cluster = symbol_or_null(id);
  for (const auto& subset : slice.subsets) {
    const auto index = static_cast<std::uint16_t>(list.ports.size());
    list.ports.push_back(tables_.ports.intern(subset.ports));
    for (const auto& endpoint : subset.endpoints) {
      const Ref<const EndpointPlace> place = place_of_endpoint(endpoint);
      for (const auto& address : endpoint.addresses) {
        if (address.is_unspecified() || !is_of_family(address, only)) continue;
        EndpointEntry entry;
        entry.address = address;
        entry.ready = endpoint.ready || all_ready;
        if (is_own)
          entry.network = tables_.networks.of_pod(id, slice.meta.ns, endpoint.target_name, address);
        if (!entry.network) entry.network = network_at(scope, address);
        entry.cluster = cluster;
        entry.hostname = to_lower(endpoint.hostname);
        entry.pod_name = endpoint.target_name;
        entry.node_name = endpoint.node_name;
        entry.subset = index;
        entry.place = place;
        if (in_set) append_cluster_id(id, entry);
        list.entries.push_back(std::move(entry));
      }
    }
  }
}

void Deriver::append_cluster_id(std::string_view cluster, EndpointEntry& entry) const {
  constexpr std::size_t kLongestName = 253;
  if (!is_label(cluster)) return;
  std::string name = EndpointList::label_of(entry, settings_.endpoint_pod_names);
  if (name.size() + cluster.size() + host_.size() + 2 > kLongestName) return;
  entry.hostname = std::move(name.append(1, '.').append(to_lower(cluster)));
}

void Deriver::from_imports(const Stored<ServiceImport>& imports,
                           const Stored<EndpointSlice>& slices) {
  const ServiceImport& first = *imports.front().first;
  record_->provider = Provider::MultiCluster;
  record_->ttl_class = TtlClass::Kubernetes;
  record_->creation_time = first.meta.creation_time;
  record_->headless = first.headless;
  record_->exports = exports_of({}, Visibility::Public);
  set_ports(first.ports);
  set_distribution(TrafficDistribution::Unset);
  if (first.headless) {
    // Without slices of the import, the Services of the same name stand for it.
    const Sources service = sources_of_service(first.meta);
    if (slices.empty())
      add_slices(service.all<EndpointSlice>(), service.all<KubeService>());
    else
      add_slices(slices, {});
    return answer_endpoints_of_headless();
  }
  AddressSetBuilder builder;
  for (const auto& [import, stored] : imports)
    for (const auto& ip : import->ips) builder.add(ip);
  record_->answer = builder.empty() ? AnswerKind::NoAddress : AnswerKind::Vips;
  set_addresses(builder.take());
}

void Deriver::from_exports(const Stored<ServiceExport>& exports) {
  const Sources sources = sources_of_service(exports.front().first->meta);
  auto services = sources.all<KubeService>();
  leave_out_manifests(services);
  ExportedServices exported = exported_services(exports, services);
  std::ranges::move(exported.conflicts, std::back_inserter(details().notes));
  auto slices = sources.all<EndpointSlice>();
  std::erase_if(slices, [&](const auto& slice) {
    return std::ranges::none_of(exported.services, [&](const auto& service) {
      return service.first->meta.cluster == slice.first->meta.cluster;
    });
  });
  if (exported.services.empty()) {
    record_->placeholder = true;
    return;
  }
  record_->provider = Provider::MultiCluster;
  from_services(exported.services, {}, slices);
  record_->ports = {};
  set_ports(exported.ports);
  record_->split = false;  // the set of clusters is one for all clients
}

Sources Deriver::sources_of_service(const ObjectMeta& meta) const {
  std::vector<StoredRef> stored;
  const HostKey key{ns_, service_host(meta.name, meta.ns, settings_.cluster_domain)};
  if (const auto record = tables_.hosts.find(key))
    record->for_each_source([&](const StoredRef& s) { stored.push_back(s); });
  return decode_sources(stored, tables_.decoded);
}

}  // namespace meshdns::registry
