// SPDX-License-Identifier: Apache-2.0
// discovery.k8s.io EndpointSlice (v1, v1beta1) and core/v1 Endpoints.
#include <array>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/times.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 6> kSliceNames = {"apiVersion",  "kind",      "metadata",
                                                         "addressType", "endpoints", "ports"};
constexpr auto kEndpointNames =
    std::to_array<std::string_view>({"addresses", "conditions", "hostname", "nodeName", "zone",
                                     "targetRef", "hints", "deprecatedTopology", "topology"});
constexpr std::array<std::string_view, 2> kHintNames = {"forZones", "forNodes"};
constexpr std::array<std::string_view, 1> kHintTargetNames = {"name"};
constexpr std::array<std::string_view, 3> kConditionNames = {"ready", "serving", "terminating"};
constexpr std::array<std::string_view, 4> kEndpointPortNames = {"name", "protocol", "port",
                                                                "appProtocol"};
constexpr std::array<std::string_view, 7> kReferenceNames = {
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"};
constexpr std::array<std::string_view, 4> kEndpointsNames = {"apiVersion", "kind", "metadata",
                                                             "subsets"};
constexpr std::array<std::string_view, 3> kSubsetNames = {"addresses", "notReadyAddresses",
                                                          "ports"};
constexpr std::array<std::string_view, 4> kAddressNames = {"ip", "hostname", "nodeName",
                                                           "targetRef"};
constexpr std::array<std::string_view, 3> kAddressTypes = {"IPv4", "IPv6", "FQDN"};

// The API's own bounds of a slice.  An Endpoints object has none but its octets.
constexpr std::size_t kMaxSliceEndpoints = 1000;
constexpr std::size_t kMaxEndpointAddresses = 100;
constexpr std::size_t kMaxHints = 8;

constexpr std::string_view kServiceName = "kubernetes.io/service-name";
constexpr std::string_view kImportedServiceName = "multicluster.kubernetes.io/service-name";
constexpr std::string_view kSourceCluster = "multicluster.kubernetes.io/source-cluster";
constexpr std::string_view kTriggerTime = "endpoints.kubernetes.io/last-change-trigger-time";

std::int64_t trigger_time_of(Object& object) {
  const auto text = object.annotation(kTriggerTime);
  if (!text) return 0;
  const auto time = parse_timestamp_ms(*text);
  if (!time)
    object.annotation_finding(Severity::Warning, kTriggerTime,
                              in_quotes(*text) + " is not a time such as 2026-01-31T12:00:00Z");
  return time.value_or(0);
}

// Endpoint ports; one without a number means every port and has nothing to answer with.
std::vector<ServicePort> read_endpoint_ports(Report& report, const std::optional<Field>& list) {
  std::vector<ServicePort> ports;
  for_each_element(report, list, [&](const Field& at) {
    const Fields fields(report, at, {kEndpointPortNames});
    if (!at->is_mapping()) return;
    ServicePort port;
    const auto name = fields.get("name");
    port.name = to_lower(read_string_or_empty(report, name));
    if (!port.name.empty() && !is_label(port.name))
      report.error(*name, in_quotes(port.name) +
                              " is not a port name: 1 to 63 letters, digits and inner hyphens");
    port.protocol = read_kube_protocol(report, fields.get("protocol"));
    const auto number = fields.get("port");
    if (!number) return;
    port.number = read_port(report, *number).value_or(0);
    ports.push_back(std::move(port));
  });
  return ports;
}

std::string read_hostname(Report& report, const std::optional<Field>& field) {
  const std::string_view text = read_string_or_empty(report, field);
  if (!text.empty() && !is_label(text))
    report.error(*field, in_quotes(text) + " is not a label of a host name");
  return to_lower(text);
}

std::string read_pod_reference(Report& report, const std::optional<Field>& reference) {
  if (!reference) return {};
  const Fields fields(report, *reference, {kReferenceNames});
  if (read_string_or_empty(report, fields.get("kind")) != "Pod") return {};
  return std::string(read_string_or_empty(report, fields.get("name")));
}

void read_conditions(Report& report, const std::optional<Field>& conditions, Endpoint& endpoint) {
  if (!conditions) return;
  const Fields fields(report, *conditions, {kConditionNames});
  // Unknown readiness counts as ready (EndpointConditions).  The other conditions change no answer.
  endpoint.ready = read_bool_or(report, fields.get("ready"), true);
}

std::vector<std::string> read_hint_targets(Report& report, const std::optional<Field>& list) {
  std::vector<std::string> names;
  if (is_too_long(report, list, kMaxHints, "Kubernetes")) return names;
  for_each_element(report, list, [&](const Field& at) {
    const Fields fields(report, at, {kHintTargetNames});
    if (!at->is_mapping()) return;
    const std::string_view name = read_string_or_empty(report, fields.get("name"));
    if (!name.empty()) names.emplace_back(name);
  });
  return names;
}

void read_hints(Report& report, const std::optional<Field>& hints, Endpoint& endpoint) {
  if (!hints) return;
  const Fields fields(report, *hints, {kHintNames});
  endpoint.hinted_zones = read_hint_targets(report, fields.get("forZones"));
  endpoint.hinted_nodes = read_hint_targets(report, fields.get("forNodes"));
}

// v1beta1 kept node and zone in a map, which v1 still has under another name.
void read_topology(Report& report, const std::optional<Field>& topology, Endpoint& endpoint) {
  const Labels labels = read_labels(report, topology);
  for (const auto& [key, value] : labels) {
    if (key == "kubernetes.io/hostname" && endpoint.node_name.empty()) endpoint.node_name = value;
    if (key == "topology.kubernetes.io/zone" && endpoint.zone.empty()) endpoint.zone = value;
  }
}

void read_slice_endpoint(Report& report, const Field& at, bool has_names, Endpoint& endpoint) {
  const Fields fields(report, at, {kEndpointNames});
  if (!at->is_mapping()) return;
  const auto addresses = fields.get("addresses");
  if (!addresses)
    report.error(at, at.path("addresses"), "missing; an endpoint needs at least one address");
  if (is_too_long(report, addresses, kMaxEndpointAddresses, "Kubernetes")) return;
  for_each_element(report, addresses, [&](const Field& address) {
    if (has_names) return;
    if (const auto ip = read_ip(report, address)) endpoint.addresses.push_back(*ip);
  });
  read_conditions(report, fields.get("conditions"), endpoint);
  endpoint.hostname = read_hostname(report, fields.get("hostname"));
  endpoint.target_name = read_pod_reference(report, fields.get("targetRef"));
  endpoint.node_name = read_string_or_empty(report, fields.get("nodeName"));
  endpoint.zone = read_string_or_empty(report, fields.get("zone"));
  read_hints(report, fields.get("hints"), endpoint);
  read_topology(report, fields.get("topology"), endpoint);
  read_topology(report, fields.get("deprecatedTopology"), endpoint);
}

bool read_has_names(Report& report, const Field& root, const std::optional<Field>& address_type) {
  if (!address_type) {
    report.error(root, "addressType", "missing; specify IPv4 or IPv6");
    return false;
  }
  const auto choice = read_choice(report, *address_type, kAddressTypes);
  if (!choice || kAddressTypes[*choice] != "FQDN") return false;
  report.warning(*address_type, "FQDN endpoints have no addresses and are ignored");
  return true;
}

void read_addresses(Report& report, const std::optional<Field>& list, bool is_ready,
                    EndpointSubset& subset) {
  for_each_element(report, list, [&](const Field& at) {
    const Fields fields(report, at, {kAddressNames});
    if (!at->is_mapping()) return;
    Endpoint endpoint;
    endpoint.ready = is_ready;
    if (const auto ip = fields.get("ip")) {
      if (const auto address = read_ip(report, *ip)) endpoint.addresses.push_back(*address);
    } else {
      report.error(at, at.path("ip"), "missing");
    }
    endpoint.hostname = read_hostname(report, fields.get("hostname"));
    endpoint.node_name = read_string_or_empty(report, fields.get("nodeName"));
    endpoint.target_name = read_pod_reference(report, fields.get("targetRef"));
    subset.endpoints.push_back(std::move(endpoint));
  });
}

void warn_of_labels(Object& object, std::string message) {
  object.report.add(Severity::Warning, object.root.line(), "metadata.labels", std::move(message));
}

// Of the label `key`; empty without it, or with a value that names nothing.
std::string read_service_name(Object& object, std::string_view key) {
  const auto service = object.label(key);
  if (!service) return {};
  if (is_label(*service)) return std::string(*service);
  warn_of_labels(object, "the label " + std::string(key) + " has " + in_quotes(*service) +
                             ", which is no name of a Service, so the endpoints belong to none");
  return {};
}

// Some controllers write an annotation in place of the label, which CoreDNS reads.
std::string read_source_cluster(Object& object) {
  const auto label = object.label(kSourceCluster);
  const auto id = label ? label : object.annotation(kSourceCluster);
  if (!id) return {};
  if (is_label(*id)) return to_lower(*id);
  warn_of_labels(object, std::string(kSourceCluster) + " has " + in_quotes(*id) +
                             ", which is no label of a host name, so the names of these endpoints "
                             "are without the id of their cluster");
  return {};
}

}  // namespace

Resource read_endpoint_slice(Object& object) {
  const Fields fields(object.report, object.root, {kSliceNames});
  EndpointSlice slice;
  slice.service = read_service_name(object, kServiceName);
  slice.imported_service = read_service_name(object, kImportedServiceName);
  if (!slice.imported_service.empty()) slice.source_cluster = read_source_cluster(object);
  if (!object.label(kServiceName) && !object.label(kImportedServiceName))
    warn_of_labels(object,
                   "the label kubernetes.io/service-name is missing, so the endpoints belong to "
                   "no Service");
  const bool has_names = read_has_names(object.report, object.root, fields.get("addressType"));
  EndpointSubset subset;
  const auto endpoints = fields.get("endpoints");
  if (is_too_long(object.report, endpoints, kMaxSliceEndpoints, "Kubernetes")) return slice;
  for_each_element(object.report, endpoints, [&](const Field& at) {
    Endpoint endpoint;
    read_slice_endpoint(object.report, at, has_names, endpoint);
    if (!has_names) subset.endpoints.push_back(std::move(endpoint));
  });
  subset.ports = read_endpoint_ports(object.report, fields.get("ports"));
  slice.subsets.push_back(std::move(subset));
  slice.trigger_time_ms = trigger_time_of(object);
  slice.meta = std::move(object.meta);
  return slice;
}

Resource read_endpoints(Object& object) {
  const Fields fields(object.report, object.root, {kEndpointsNames});
  EndpointSlice slice;
  slice.kind = Kind::Endpoints;
  slice.service = object.meta.name;
  for_each_element(object.report, fields.get("subsets"), [&](const Field& at) {
    const Fields subset_fields(object.report, at, {kSubsetNames});
    if (!at->is_mapping()) return;
    EndpointSubset subset;
    read_addresses(object.report, subset_fields.get("addresses"), true, subset);
    read_addresses(object.report, subset_fields.get("notReadyAddresses"), false, subset);
    subset.ports = read_endpoint_ports(object.report, subset_fields.get("ports"));
    slice.subsets.push_back(std::move(subset));
  });
  slice.trigger_time_ms = trigger_time_of(object);
  slice.meta = std::move(object.meta);
  return slice;
}

}  // namespace meshdns::registry
