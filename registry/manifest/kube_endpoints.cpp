// SPDX-License-Identifier: Apache-2.0
// discovery.k8s.io EndpointSlice (v1, v1beta1) and core/v1 Endpoints.
#include <array>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/times.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

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

// One without a number means every port and has nothing to answer with.
constexpr Message kEndpointPort{FieldRule{"name", read_kube_port_name},
                                FieldRule{"protocol", read_kube_port_protocol},
                                FieldRule{"port", &ServicePort::number}, words<"appProtocol">};

void read_hostname(Report& report, const Field& at, Endpoint& endpoint) {
  const std::string_view text = read_string_or_empty(report, at);
  if (!text.empty() && !is_label(text))
    report.error(at, in_quotes(text) + " is not a label of a host name");
  endpoint.hostname = to_lower(text);
}

constexpr Message kReference{words<"kind namespace name uid apiVersion resourceVersion fieldPath">};

void read_pod_reference(Report& report, const Field& at, Endpoint& endpoint) {
  const Fields fields(report, at, kReference);
  if (read_string_or_empty(report, fields.get("kind")) == "Pod")
    endpoint.target_name = read_string_or_empty(report, fields.get("name"));
}

struct HintTarget {
  std::string name;
};
constexpr Message kHintTarget{FieldRule{"name", &HintTarget::name}};

template <auto Names>
constexpr auto hint_targets = [](Report& report, const Field& list, Endpoint& endpoint) {
  if (is_too_long(report, list, kMaxHints, "Kubernetes")) return;
  for_each_element(report, list, [&](const Field& at) {
    HintTarget target;
    read_message(report, at, kHintTarget, target);
    if (!target.name.empty()) (endpoint.*Names).push_back(std::move(target.name));
  });
};

// v1beta1 kept node and zone in a map, which v1 still has under another name.
void read_topology(Report& report, const Field& at, Endpoint& endpoint) {
  const Labels labels = read_labels(report, at);
  for (const auto& [key, value] : labels) {
    if (key == "kubernetes.io/hostname" && endpoint.node_name.empty()) endpoint.node_name = value;
    if (key == "topology.kubernetes.io/zone" && endpoint.zone.empty()) endpoint.zone = value;
  }
}

void read_endpoint_ip(Report& report, const Field& at, Endpoint& endpoint) {
  if (const auto ip = read_ip(report, at)) endpoint.addresses.push_back(*ip);
}

struct SliceEndpoint : Endpoint {
  bool has_names = false;  // in place of addresses; they are not read
};

bool read_slice_addresses(Report& report, const Field& list, SliceEndpoint& endpoint) {
  if (is_too_long(report, list, kMaxEndpointAddresses, "Kubernetes")) return false;
  for_each_element(report, list, [&](const Field& at) {
    if (!endpoint.has_names) read_endpoint_ip(report, at, endpoint);
  });
  return true;
}

// Unknown readiness counts as ready (EndpointConditions).  The other conditions change no answer.
constexpr Message kConditions{FieldRule{"ready", &Endpoint::ready}, words<"serving terminating">};
constexpr Message kHints{FieldRule{"forZones", hint_targets<&Endpoint::hinted_zones>},
                         FieldRule{"forNodes", hint_targets<&Endpoint::hinted_nodes>}};

constexpr Message kSliceEndpoint{
    FieldRule{"addresses", read_slice_addresses, "missing; an endpoint needs at least one address"},
    FieldRule{"conditions", nested<kConditions>},
    FieldRule{"hostname", read_hostname},
    FieldRule{"targetRef", read_pod_reference},
    FieldRule{"nodeName", &Endpoint::node_name},
    FieldRule{"zone", &Endpoint::zone},
    FieldRule{"hints", nested<kHints>},
    FieldRule{"topology", read_topology},
    FieldRule{"deprecatedTopology", read_topology}};

struct SliceContent : EndpointSubset {
  bool has_names = false;
};

void read_address_type(Report& report, const Field& at, SliceContent& content) {
  const auto type = read_choice(report, at, kAddressTypes);
  content.has_names = type && kAddressTypes[*type] == "FQDN";
  if (content.has_names) report.warning(at, "FQDN endpoints have no addresses and are ignored");
}

bool read_slice_endpoints(Report& report, const Field& list, SliceContent& content) {
  if (is_too_long(report, list, kMaxSliceEndpoints, "Kubernetes")) return false;
  for_each_element(report, list, [&](const Field& at) {
    SliceEndpoint endpoint{{}, content.has_names};
    read_message(report, at, kSliceEndpoint, endpoint);
    if (!content.has_names) content.endpoints.push_back(std::move(endpoint));
  });
  return true;
}

constexpr Message kSlice{
    words<"apiVersion kind metadata">,
    FieldRule{"addressType", read_address_type, "missing; specify IPv4 or IPv6"},
    FieldRule{"endpoints", read_slice_endpoints}, FieldRule{"ports", kube_ports<kEndpointPort>}};

constexpr Message kAddress{
    FieldRule{"ip", read_endpoint_ip, "missing"}, FieldRule{"hostname", read_hostname},
    FieldRule{"nodeName", &Endpoint::node_name}, FieldRule{"targetRef", read_pod_reference}};

template <bool IsReady>
constexpr auto addresses_of = [](Report& report, const Field& list, EndpointSubset& subset) {
  for_each_element(report, list, [&](const Field& at) {
    Endpoint endpoint;
    endpoint.ready = IsReady;
    if (read_message(report, at, kAddress, endpoint))
      subset.endpoints.push_back(std::move(endpoint));
  });
};

constexpr Message kSubset{FieldRule{"addresses", addresses_of<true>},
                          FieldRule{"notReadyAddresses", addresses_of<false>},
                          FieldRule{"ports", kube_ports<kEndpointPort>}};
constexpr Message kEndpoints{words<"apiVersion kind metadata">,
                             FieldRule{"subsets", list_of<kSubset, &EndpointSlice::subsets>}};

void warn_of_labels(Object& object, std::string message) {
  object.report.add(Severity::Warning, object.root.line(), "metadata.labels", std::move(message));
}

// Returns the value of the label `key`; empty without it, or if the value is not a name.
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
  const Fields fields(object.report, object.root, kSlice);
  EndpointSlice slice;
  slice.service = read_service_name(object, kServiceName);
  slice.imported_service = read_service_name(object, kImportedServiceName);
  if (!slice.imported_service.empty()) slice.source_cluster = read_source_cluster(object);
  if (!object.label(kServiceName) && !object.label(kImportedServiceName))
    warn_of_labels(object,
                   "the label kubernetes.io/service-name is missing, so the endpoints belong to "
                   "no Service");
  SliceContent content;
  if (!read_fields(object.report, fields, kSlice, content)) return slice;
  slice.subsets.push_back(std::move(content));
  slice.trigger_time_ms = trigger_time_of(object);
  slice.meta = std::move(object.meta);
  return slice;
}

Resource read_endpoints(Object& object) {
  EndpointSlice slice;
  slice.kind = Kind::Endpoints;
  slice.service = object.meta.name;
  read_message(object.report, object.root, kEndpoints, slice);
  slice.trigger_time_ms = trigger_time_of(object);
  slice.meta = std::move(object.meta);
  return slice;
}

}  // namespace meshdns::registry
