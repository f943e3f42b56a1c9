// SPDX-License-Identifier: Apache-2.0
// Names as in Istio's model.Service, for those who know its debug pages.
#include "dnsd/admin/registry_objects.hpp"

#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

using registry::MeshService;
using registry::ServiceInstance;
using registry::ServiceRecord;

void put_addresses(Json& json, const char* key, const std::vector<IpAddress>& addresses) {
  put_list(json, key, addresses, [&](const IpAddress& address) { put(json, address.to_string()); });
}

void put_ports(Json& json, const std::vector<registry::ServicePort>& ports) {
  put_objects(json, "ports", ports, [&](const registry::ServicePort& port) {
    put(json, "name", port.name);
    put(json, "port", port.number);
    put(json, "protocol", port.protocol);
    if (port.target_port != 0) put(json, "targetPort", port.target_port);
    if (!port.app_protocol.empty()) put(json, "appProtocol", port.app_protocol);
  });
}

void put_cluster_vips(Json& json, const registry::ClusterVips& clusters) {
  put_object(json, "clusterVIPs", [&] {
    for (const auto& [cluster, addresses] : clusters)
      put_addresses(json, cluster.c_str(), addresses);
  });
}

void put_creation_time(Json& json, std::int64_t time) {
  json.Key("creationTime");
  if (time == registry::kUnknownCreationTime)
    json.Null();
  else
    json.Int64(time);
}

// The members that identify an object, in the object that has just begun.
void put_id_members(Json& json, const registry::ServiceId& id) {
  put(json, "namespace", id.ns);
  put(json, "uid", id.uid);
  put(json, "provider", id.provider);
}

void put_attributes(Json& json, const MeshService& service) {
  put_object(json, "attributes", [&] {
    put(json, "name", service.name);
    put_id_members(json, service.id);
    put(json, "exportTo", service.export_to);
  });
}

void put_labels(Json& json, const registry::Labels& labels) {
  put_object(json, "labels", [&] {
    for (const auto& [key, value] : labels) put(json, key.c_str(), value);
  });
}

void put_instance(Json& json, const ServiceInstance& instance) {
  put(json, "family", to_string(instance.family));
  put(json, "address", instance.address);
  put(json, "port", instance.port);
  put(json, "servicePortName", instance.service_port_name);
  put_bool(json, "ready", instance.ready);
  put(json, "health", instance.ready ? "HEALTHY" : "UNHEALTHY");
  put(json, "weight", instance.weight);
  put(json, "locality", instance.locality);
  put_labels(json, instance.labels);
  put(json, "serviceAccount", instance.service_account);
  put(json, "network", instance.network);
  put(json, "cluster", instance.cluster);
  put(json, "uid", instance.uid);
  put(json, "hostname", instance.hostname);
  put(json, "pod", instance.pod_name);
  put(json, "node", instance.node_name);
}

std::vector<IpAddress> answers_of(const ServiceRecord& service) {
  const auto view = service.addresses(nullptr, nullptr);
  std::vector<IpAddress> addresses;
  for (const auto& octets : view.v4) addresses.push_back(IpAddress::v4(octets));
  for (const auto& octets : view.v6) addresses.push_back(IpAddress::v6(octets));
  return addresses;
}

}  // namespace

void put_service(Json& json, const registry::Registry& registry, std::string_view host,
                 const ServiceRecord& record) {
  const MeshService service = mesh_service(registry, host, record);
  json.StartObject();
  put(json, "hostname", service.id.hostname);
  put(json, "address", service.address);
  put_addresses(json, "addresses", service.addresses);
  put_cluster_vips(json, service.cluster_vips);
  put_ports(json, service.ports);
  put(json, "serviceAccounts", service.service_accounts);
  put(json, "subjectAltNames", service.subject_alt_names);
  put_bool(json, "meshExternal", service.mesh_external);
  put(json, "resolution", to_string(service.resolution));
  put(json, "answer", service.answer);
  if (!service.alias.empty()) put(json, "alias", service.alias);
  put_creation_time(json, service.creation_time);
  put_attributes(json, service);
  json.EndObject();
}

void put_endpoints(Json& json, const registry::Registry& registry, std::string_view host,
                   const ServiceRecord& record) {
  json.StartObject();
  put(json, "hostname", host);
  put_id_members(json, id_of(host, record));
  put_objects(json, "endpoints", instances_of(registry, record),
              [&](const ServiceInstance& instance) { put_instance(json, instance); });
  put(json, "resolvedNames", record.resolved_names());
  put_addresses(json, "addresses", answers_of(record));
  json.EndObject();
}

void put_vip(Json& json, const registry::Registry&, std::string_view host,
             const ServiceRecord& record) {
  if (!record.auto_allocated) return;
  json.StartObject();
  put(json, "host", host);
  put(json, "namespace", record.ns->text());
  put_addresses(json, "addresses", answers_of(record));
  json.EndObject();
}

void put_service_id(Json& json, const registry::ServiceId& id) {
  json.StartObject();
  put(json, "hostname", id.hostname);
  put_object(json, "attributes", [&] { put_id_members(json, id); });
  json.EndObject();
}

void put_endpoints_id(Json& json, const registry::ServiceId& id) {
  json.StartObject();
  put(json, "hostname", id.hostname);
  put_id_members(json, id);
  json.EndObject();
}

}  // namespace meshdns::dnsd
