// SPDX-License-Identifier: Apache-2.0
#include "registry/service_model.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "registry/base/each_once.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {
namespace {

constexpr std::string_view kUnixScheme = "unix://";
// Istio's address of a service that has none.
constexpr std::string_view kUnspecified = "0.0.0.0";

std::string_view text_or_empty(const SymbolRef& symbol) {
  return symbol ? symbol->text() : std::string_view();
}

// The decoded objects of a service, in the record's order: the one that names it first.
std::vector<Resource> objects_of(const ServiceRecord& service) {
  std::vector<Resource> objects;
  service.for_each_source([&](const StoredRef& stored) { objects.push_back(stored->decode()); });
  return objects;
}

// --- instances ----------------------------------------------------------------------------------

// The fields of an endpoint beside its address and ports.
struct Attributes {
  std::string locality;
  Labels labels;
  std::string service_account;
  std::string uid;
};

Attributes attributes_of(const Pod& pod) {
  return {{},
          pod.meta.labels,
          pod.service_account,
          "kubernetes://" + pod.meta.name + "." + pod.meta.ns};
}
Attributes attributes_of(const WorkloadSpec& spec) {
  return {spec.locality, spec.labels, spec.service_account, {}};
}
Attributes attributes_of(const WorkloadEntry& workload) {
  Attributes attributes = attributes_of(workload.spec);
  attributes.labels = selectable_labels(workload);
  attributes.uid = "istio://" + workload.meta.ns + "/workloads/" + workload.meta.name;
  return attributes;
}

// The attributes of a service's endpoints.  Several endpoints may have one address; they are told
// apart by their order, which is that of the record's endpoints.
class AttributeTable {
 public:
  AttributeTable(const Registry& registry, const ServiceRecord& service)
      : registry_(registry), ns_(text_or_empty(service.ns)) {}

  void add(const Resource& object) {
    if (const auto* entry = std::get_if<ServiceEntry>(&object)) add(*entry);
    if (const auto* slice = std::get_if<EndpointSlice>(&object)) add(*slice);
  }

  Attributes take(const IpAddress& address) {
    const auto found = by_address_.find(address);
    if (found == by_address_.end()) return {};
    auto& [list, next] = found->second;
    return list[std::min(next++, list.size() - 1)];
  }
  // The Unix sockets' instances, which are no endpoints of the record.
  std::vector<ServiceInstance> take_sockets() { return std::move(sockets_); }

 private:
  struct Queue {
    std::vector<Attributes> list;
    std::size_t next = 0;
  };

  void add(const ServiceEntry& entry) {
    if (entry.workload_selector)
      registry_.for_each_selected(ns_, *entry.workload_selector,
                                  [&](const Resource& workload) { add_workload(entry, workload); });
    for (const auto& spec : entry.endpoints)
      add_spec(entry, spec, entry.meta, attributes_of(spec), true);
  }

  void add_workload(const ServiceEntry& entry, const Resource& resource) {
    if (const auto* workload = std::get_if<WorkloadEntry>(&resource))
      return add_spec(entry, workload->spec, workload->meta, attributes_of(*workload),
                      workload->healthy);
    const auto* pod = std::get_if<Pod>(&resource);
    if (pod == nullptr || !pod->running) return;
    for (const auto& ip : pod->ips) by_address_[ip].list.push_back(attributes_of(*pod));
  }

  // `meta`: of the object that has the spec.
  void add_spec(const ServiceEntry& entry, const WorkloadSpec& spec, const ObjectMeta& meta,
                Attributes attributes, bool healthy) {
    if (spec.address.starts_with(kUnixScheme))
      return add_socket(entry, spec, meta, std::move(attributes), healthy);
    if (const auto ip = IpAddress::parse(spec.address)) {
      by_address_[*ip].list.push_back(std::move(attributes));
    } else if (const ResolvedName* resolved = registry_.resolved(ns_, spec.address)) {
      for (const auto& address : resolved->addresses)
        by_address_[address].list.push_back(attributes);
    }
  }

  void add_socket(const ServiceEntry& entry, const WorkloadSpec& spec, const ObjectMeta& meta,
                  Attributes attributes, bool healthy) {
    ServiceInstance socket;
    socket.family = EndpointFamily::Unix;
    socket.address = spec.address.substr(kUnixScheme.size());
    if (!entry.ports.empty()) socket.service_port_name = entry.ports.front().name;
    socket.locality = std::move(attributes.locality);
    socket.labels = std::move(attributes.labels);
    socket.service_account = std::move(attributes.service_account);
    socket.network = spec.network.empty() ? meta.network : spec.network;
    socket.cluster = meta.cluster;
    socket.uid = std::move(attributes.uid);
    socket.ready = healthy;
    socket.weight = spec.weight == 0 ? 1 : spec.weight;
    sockets_.push_back(std::move(socket));
  }

  void add(const EndpointSlice& slice) {
    for (const auto& subset : slice.subsets)
      for (const auto& endpoint : subset.endpoints) {
        Attributes attributes;
        if (!endpoint.target_name.empty()) attributes = of_target(slice.meta, endpoint.target_name);
        if (!endpoint.zone.empty()) attributes.locality = "/" + endpoint.zone;
        for (const auto& ip : endpoint.addresses) by_address_[ip].list.push_back(attributes);
      }
  }

  // The Pod may not be known: Pods need not be watched.
  Attributes of_target(const ObjectMeta& slice, const std::string& name) const {
    const ResourceKey key{Kind::Pod, slice.cluster, slice.ns, name};
    const StoredResource* stored = registry_.current()->resources.find(
        hash_of(key), [&](const StoredResource& resource) { return resource.has_key(key); });
    if (stored != nullptr) return attributes_of(std::get<Pod>(stored->decode()));
    return {{}, {}, {}, "kubernetes://" + name + "." + slice.ns};
  }

  const Registry& registry_;
  const std::string_view ns_;
  std::map<IpAddress, Queue> by_address_;
  std::vector<ServiceInstance> sockets_;
};

// The slices of a name of the cluster set are those of the Service that it stands for.
void add_slices_of_cluster_set(const Registry& registry, const ServiceRecord& service,
                               AttributeTable& table) {
  const Snapshot& snapshot = *registry.current();
  const HostEntry* entry = snapshot.find_host(service_host(
      service.source->name(), text_or_empty(service.ns), snapshot.settings->cluster_domain));
  if (entry == nullptr) return;
  for (const ServiceRecord* record : entry->records())
    if (record->ns == service.ns)
      for (const Resource& object : objects_of(*record)) table.add(object);
}

ServiceInstance instance_of(const EndpointEntry& endpoint, Attributes attributes) {
  ServiceInstance instance;
  instance.address = endpoint.address.to_string();
  instance.locality = std::move(attributes.locality);
  instance.labels = std::move(attributes.labels);
  instance.service_account = std::move(attributes.service_account);
  instance.network = text_or_empty(endpoint.network);
  instance.cluster = text_or_empty(endpoint.cluster);
  instance.uid = std::move(attributes.uid);
  instance.ready = endpoint.ready;
  instance.weight = endpoint.weight;
  instance.hostname = endpoint.hostname;
  instance.pod_name = endpoint.pod_name;
  instance.node_name = endpoint.node_name;
  return instance;
}

// One for each port of the endpoint.
void add_instances(const EndpointList& list, const EndpointEntry& endpoint, Attributes attributes,
                   std::vector<ServiceInstance>& to) {
  const ServiceInstance instance = instance_of(endpoint, std::move(attributes));
  if (endpoint.subset >= list.ports.size() || list.ports[endpoint.subset]->ports.empty()) {
    to.push_back(instance);
    return;
  }
  for (const ServicePort& port : list.ports[endpoint.subset]->ports) {
    to.push_back(instance);
    to.back().port = port.number;
    to.back().service_port_name = port.name;
  }
}

// --- services -----------------------------------------------------------------------------------

ServiceResolution resolution_of(Resolution resolution) {
  switch (resolution) {
    case Resolution::None:
      return ServiceResolution::Passthrough;
    case Resolution::Static:
      return ServiceResolution::ClientSideLB;
    case Resolution::Dns:
      return ServiceResolution::DNSLB;
    case Resolution::DnsRoundRobin:
      return ServiceResolution::DNSRoundRobinLB;
    case Resolution::DynamicDns:
      return ServiceResolution::DynamicDNS;
  }
  return ServiceResolution::Passthrough;
}

ServiceResolution resolution_of(const ServiceRecord& service) {
  if (service.provider == Provider::ServiceEntry || service.provider == Provider::NameTable)
    return resolution_of(service.resolution);
  if (service.answer == AnswerKind::Alias) return ServiceResolution::Alias;
  return service.headless ? ServiceResolution::Passthrough : ServiceResolution::ClientSideLB;
}

// Reads it from the object that names the service.
bool is_mesh_external(const Resource& object) {
  if (const auto* entry = std::get_if<ServiceEntry>(&object))
    return entry->location == Location::MeshExternal;
  if (const auto* service = std::get_if<KubeService>(&object))
    return service->type == ServiceType::ExternalName;
  if (const auto* name = std::get_if<NameTableEntry>(&object)) return !name->kubernetes;
  return false;
}

std::vector<IpAddress> addresses_of(const ServiceRecord& service) {
  const AddressView view = service.addresses(nullptr, nullptr);
  std::vector<IpAddress> addresses;
  for (const auto& octets : view.v4) addresses.push_back(IpAddress::v4(octets));
  for (const auto& octets : view.v6) addresses.push_back(IpAddress::v6(octets));
  return addresses;
}

// Istio's model names a prefix, too.
std::string address_of(const MeshService& service, const ServiceRecord& record,
                       const Resource& object) {
  if (record.answer == AnswerKind::Vips && !service.addresses.empty())
    return service.addresses.front().to_string();
  if (const auto* entry = std::get_if<ServiceEntry>(&object);
      entry != nullptr && !entry->addresses.empty())
    return entry->addresses.front().to_string();
  return std::string(kUnspecified);
}

std::vector<std::string> exports_of(const ServiceRecord& service) {
  if (service.is_public()) return {"*"};
  std::vector<std::string> names;
  for (const auto& ns : service.exports->namespaces) names.emplace_back(ns->text());
  std::ranges::sort(names);
  return names;
}

void add_fields_of(const Resource& object, MeshService& service) {
  if (const auto* entry = std::get_if<ServiceEntry>(&object))
    service.subject_alt_names.insert(service.subject_alt_names.end(),
                                     entry->subject_alt_names.begin(),
                                     entry->subject_alt_names.end());
  if (const auto* kube = std::get_if<KubeService>(&object); kube && !kube->cluster_ips.empty())
    service.cluster_vips.emplace_back(kube->meta.cluster, kube->cluster_ips);
}

}  // namespace

std::vector<const ServiceRecord*> services_of(const ServiceRecord& record) {
  if (record.placeholder) return {};
  const ServiceParts* parts = record.parts();
  if (parts == nullptr) return {&record};
  std::vector<const ServiceRecord*> services;
  // The parts of single clusters repeat the one that unites them.
  const auto all = parts->all();
  for (std::size_t i = 0; i < all.size(); i += i == 0 ? parts->clusters().size() + 1 : 1)
    services.push_back(all[i].get());
  return services;
}

ServiceId id_of(std::string_view host, const ServiceRecord& service) {
  const std::string ns(text_or_empty(service.ns));
  return {std::string(host), ns,
          "istio://" + ns + "/services/" + std::string(service.source->name()),
          std::string(to_string(service.provider))};
}

std::vector<ServiceInstance> instances_of(const Registry& registry, const ServiceRecord& service) {
  AttributeTable table(registry, service);
  for (const Resource& object : objects_of(service)) table.add(object);
  if (service.provider == Provider::MultiCluster)
    add_slices_of_cluster_set(registry, service, table);
  std::vector<ServiceInstance> instances;
  if (const EndpointList* list = service.endpoints())
    for (const auto& endpoint : list->entries)
      add_instances(*list, endpoint, table.take(endpoint.address), instances);
  std::ranges::move(table.take_sockets(), std::back_inserter(instances));
  return instances;
}

MeshService mesh_service(const Registry& registry, std::string_view host,
                         const ServiceRecord& record) {
  MeshService service;
  service.id = id_of(host, record);
  service.name = record.source->name();
  service.addresses = addresses_of(record);
  if (record.ports) service.ports = record.ports->ports;
  service.resolution = resolution_of(record);
  service.creation_time = record.creation_time;
  service.export_to = exports_of(record);
  service.answer = to_string(record.answer);
  service.alias = record.alias();
  const std::vector<Resource> objects = objects_of(record);
  service.address = address_of(service, record, objects.front());
  service.mesh_external = is_mesh_external(objects.front());
  for (const Resource& object : objects) add_fields_of(object, service);
  for (auto& instance : instances_of(registry, record))
    if (!instance.service_account.empty())
      service.service_accounts.push_back(std::move(instance.service_account));
  sort_each_once(service.service_accounts);
  sort_each_once(service.subject_alt_names);
  return service;
}

}  // namespace meshdns::registry
