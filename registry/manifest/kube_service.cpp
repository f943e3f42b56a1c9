// SPDX-License-Identifier: Apache-2.0
// core/v1 Service, Namespace and Node (the place of Pods).
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/manifest/dns_annotations.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr auto& kServiceTypes = words<"ClusterIP NodePort LoadBalancer ExternalName">;

constexpr std::string_view kExportTo = "networking.istio.io/exportTo";
// It asks for near endpoints.
constexpr std::string_view kTrafficDistribution = "networking.istio.io/traffic-distribution";

// A word that this version does not know says nothing, as in Istio.
void read_service_traffic(Report& report, const Field& at, KubeService& service) {
  const std::string_view word = read_string_or_empty(report, at);
  const auto distribution = parse_traffic_distribution(word);
  if (distribution && *distribution != TrafficDistribution::Any)
    service.traffic_distribution = *distribution;
  else if (!word.empty())
    report.warning(at, in_quotes(word) +
                           " is not PreferSameZone, PreferSameNode or "
                           "PreferClose; it is ignored");
}

constexpr Message kServicePort{FieldRule{"port", &ServicePort::number, "missing; specify 1..65535"},
                               FieldRule{"protocol", read_kube_port_protocol},
                               FieldRule{"appProtocol", &ServicePort::app_protocol},
                               FieldRule{"name", read_kube_port_name},
                               words<"targetPort nodePort">};

void read_service_ports(Report& report, const Field& list, KubeService& service) {
  std::set<std::string> names;
  for_each_element(report, list, [&](const Field& at) {
    const Fields fields(report, at, kServicePort);
    if (!at->is_mapping()) return;
    ServicePort port;
    port.protocol = "TCP";
    read_fields(report, fields, kServicePort, port);
    if (port.name.empty() && list->size() > 1)
      report.error(at, at.path("name"), "missing; with several ports each needs a name");
    if (!port.name.empty() && !names.insert(port.name).second)
      report.error(*fields.get("name"),
                   in_quotes(port.name) + " is given twice; port names must be unique");
    // A name leaves it to each Pod.
    if (const auto target = fields.get("targetPort"); target && (*target)->as_integer())
      port.target_port = (*target)->as_integer() == 0 ? 0 : read_port(report, *target).value_or(0);
    service.ports.push_back(std::move(port));
  });
}

constexpr Message kServiceSpec{
    FieldRule{"type", enum_or_first<kServiceTypes, &KubeService::type>},
    FieldRule{"selector", &KubeService::selector},
    FieldRule{"publishNotReadyAddresses", &KubeService::publish_not_ready_addresses},
    FieldRule{"trafficDistribution", read_service_traffic},
    FieldRule{"ports", read_service_ports},
    words<"clusterIP clusterIPs externalIPs externalName externalTrafficPolicy healthCheckNodePort "
          "internalTrafficPolicy ipFamilies ipFamilyPolicy ipFamily loadBalancerClass "
          "loadBalancerIP loadBalancerSourceRanges allocateLoadBalancerNodePorts sessionAffinity "
          "sessionAffinityConfig topologyKeys">};

void read_external_name(Report& report, const Fields& spec, KubeService& service) {
  // An object of the API server is in force: the target of an earlier version must not stay.
  const Severity severity = report.warns_unknown() ? Severity::Error : Severity::Warning;
  const auto name = spec.get("externalName");
  if (!name)
    return report.add(severity, spec.parent().line(), spec.parent().path("externalName"),
                      "missing; a Service of type ExternalName needs it");
  const auto text = read_string(report, *name);
  if (!text) return;
  // The API takes an address for a name of digits; nothing can follow such an alias.
  if (IpAddress::parse(*text))
    return report.warning(*name, in_quotes(*text) +
                                     " is an IP address, which an alias cannot point to; use a "
                                     "Service without selector and an EndpointSlice");
  if (auto reason = why_no_external_name(*text))
    return report.add(severity, name->line(), name->path(), in_quotes(*text) + " " + *reason);
  service.external_name = canonical_host(*text);
}

void add_cluster_ip(Report& report, const Field& at, std::string_view text, KubeService& service) {
  if (text.empty()) return;
  if (text == "None") {
    service.headless = true;
    return;
  }
  const auto ip = IpAddress::parse(text);
  if (!ip) return report.error(at, in_quotes(text) + " is neither an IP address nor None");
  if (ip->is_unspecified())
    return report.warning(at, in_quotes(text) + " is the unspecified address; it is left out");
  service.cluster_ips.push_back(*ip);
}

// clusterIPs has both families; clusterIP is its first.
void read_cluster_ips(Report& report, const Fields& spec, KubeService& service) {
  for_each_string(report, spec.get("clusterIPs"),
                  [&](const Field& at, auto text) { add_cluster_ip(report, at, text, service); });
  const auto single = spec.get("clusterIP");
  const auto text = single ? read_string(report, *single) : std::nullopt;
  if (text && service.cluster_ips.empty() && !service.headless)
    add_cluster_ip(report, *single, *text, service);
}

// Comma-separated and, as Istio has it, never judged.
ExportTo split_export_to(std::string_view text) {
  ExportTo out;
  for_each_part(text, " \t", [&](std::string_view part) { out.push_back(to_lower(part)); });
  return out;
}

// Fields of the API server, which are not judged again: an address that is none, such as the host
// name of a load balancer, gives the Service no address.
void add_external_address(const Node* node, KubeService& service) {
  const auto address =
      node == nullptr ? std::nullopt : IpAddress::parse(node->as_string().value_or(""));
  if (address && !address->is_unspecified()) service.external_addresses.push_back(*address);
}

void read_external_addresses(const Object& object, const Field& spec, KubeService& service) {
  const Node* const ingress =
      service.type == ServiceType::LoadBalancer
          ? find_below(object.root.node(), {"status", "loadBalancer", "ingress"})
          : nullptr;
  if (ingress != nullptr && ingress->is_sequence())
    for (const Node& each : *ingress) add_external_address(each.find("ip"), service);
  const Node* const list = spec->find("externalIPs");
  if (list != nullptr && list->is_sequence())
    for (const Node& each : *list) add_external_address(&each, service);
}

// Only workloads that the selector selects may have the other family.
void read_only_family(const Field& spec, KubeService& service) {
  const Node* const list = spec->find("ipFamilies");
  if (service.selector.empty() || list == nullptr || !list->is_sequence() || list->size() != 1)
    return;
  const std::string_view family = list->begin()->as_string().value_or("");
  if (family == "IPv4" || family == "IPv6") set_only_family(service, family);
}

}  // namespace

Resource read_service(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  KubeService service;
  const auto spec = read_spec(object, fields, "missing; specify at least ports or clusterIP: None");
  if (spec) {
    const Fields spec_fields(object.report, *spec, kServiceSpec);
    read_fields(object.report, spec_fields, kServiceSpec, service);
    const bool is_alias = service.type == ServiceType::ExternalName;
    (is_alias ? read_external_name : read_cluster_ips)(object.report, spec_fields, service);
    service.is_manifest =
        object.from_file && !is_alias && !service.headless && service.cluster_ips.empty();
    read_external_addresses(object, *spec, service);
  }
  if (const auto export_to = object.annotation(kExportTo))
    service.export_to = split_export_to(*export_to);
  if (service.traffic_distribution == TrafficDistribution::Unset)
    service.traffic_distribution = read_traffic_distribution(object);
  if (object.has_names_of_services) service.dns = read_dns_annotations(object);
  service.meta = std::move(object.meta);
  if (spec) read_only_family(*spec, service);
  return service;
}

Resource read_namespace(Object& object) {
  static constexpr Message spec_message{words<"finalizers">};
  const Fields fields(object.report, object.root, kObject);
  if (const auto spec = fields.get("spec"))
    const Fields spec_fields(object.report, *spec, spec_message);
  const TrafficDistribution distribution = read_traffic_distribution(object);
  return Namespace{std::move(object.meta), distribution};
}

Resource read_node(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  return KubeNode{std::move(object.meta)};
}

TrafficDistribution read_traffic_distribution(Object& object) {
  const auto word = object.annotation(kTrafficDistribution);
  if (!word || word->empty()) return TrafficDistribution::Unset;
  if (const auto distribution = parse_traffic_distribution(*word)) return *distribution;
  object.annotation_finding(Severity::Warning, kTrafficDistribution,
                            in_quotes(*word) +
                                " is not PreferSameZone, PreferSameNode, PreferClose "
                                "or Any; it is ignored");
  return TrafficDistribution::Unset;
}

}  // namespace meshdns::registry
