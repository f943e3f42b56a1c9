// SPDX-License-Identifier: Apache-2.0
// core/v1 Service and Namespace.
#include <array>
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/manifest/dns_annotations.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 5> kServiceNames = {"apiVersion", "kind", "metadata", "spec",
                                                           "status"};
constexpr auto kServiceSpecNames = std::to_array<std::string_view>({
    "type",
    "selector",
    "ports",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "ipFamily",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "allocateLoadBalancerNodePorts",
    "publishNotReadyAddresses",
    "sessionAffinity",
    "sessionAffinityConfig",
    "topologyKeys",
    "trafficDistribution",
});
constexpr std::array<std::string_view, 6> kServicePortNames = {
    "name", "protocol", "port", "appProtocol", "targetPort", "nodePort"};
constexpr std::array<std::string_view, 1> kNamespaceSpecNames = {"finalizers"};
constexpr std::array<std::string_view, 4> kServiceTypes = {"ClusterIP", "NodePort", "LoadBalancer",
                                                           "ExternalName"};

constexpr std::string_view kExportTo = "networking.istio.io/exportTo";

class ServiceReader {
 public:
  ServiceReader(Object& object, const Field& spec)
      : report_(object.report),
        spec_(spec),
        fields_(object.report, spec, {kServiceSpecNames}),
        from_file_(object.from_file) {}

  KubeService read() {
    service_.type =
        static_cast<ServiceType>(read_choice_or_first(report_, fields_.get("type"), kServiceTypes));
    service_.selector = read_labels(report_, fields_.get("selector"));
    service_.publish_not_ready_addresses =
        read_bool_or(report_, fields_.get("publishNotReadyAddresses"), false);
    read_traffic();
    read_ports();
    if (service_.type == ServiceType::ExternalName)
      read_external_name();
    else
      read_cluster_ips();
    service_.is_manifest = from_file_ && service_.type != ServiceType::ExternalName &&
                           !service_.headless && service_.cluster_ips.empty();
    return std::move(service_);
  }

 private:
  void read_external_name() {
    const auto name = fields_.get("externalName");
    if (!name)
      return report_.add(severity_of_target(), spec_.line(), spec_.path("externalName"),
                         "missing; a Service of type ExternalName needs it");
    const auto text = read_string(report_, *name);
    if (!text) return;
    // The API takes an address for a name of digits; nothing can follow such an alias.
    if (IpAddress::parse(*text))
      return report_.warning(*name, in_quotes(*text) +
                                        " is an IP address, which an alias cannot point to; use a "
                                        "Service without selector and an EndpointSlice");
    if (auto reason = why_no_external_name(*text))
      return report_.add(severity_of_target(), name->line(), name->path(),
                         in_quotes(*text) + " " + *reason);
    service_.external_name = canonical_host(*text);
  }

  // An object of the API server is in force: the target of an earlier version must not stay.
  Severity severity_of_target() const {
    return report_.warns_unknown() ? Severity::Error : Severity::Warning;
  }

  // A word that this version does not know says nothing, as in Istio.
  void read_traffic() {
    const auto field = fields_.get("trafficDistribution");
    if (!field) return;
    const std::string_view word = read_string_or_empty(report_, field);
    const auto distribution = parse_traffic_distribution(word);
    if (distribution && *distribution != TrafficDistribution::Any)
      service_.traffic_distribution = *distribution;
    else if (!word.empty())
      report_.warning(*field, in_quotes(word) +
                                  " is not PreferSameZone, PreferSameNode or "
                                  "PreferClose; it is ignored");
  }

  // clusterIPs has both families; clusterIP is its first.
  void read_cluster_ips() {
    const auto list = fields_.get("clusterIPs");
    for_each_string(report_, list, [&](const Field& at, auto text) { add_ip(at, text); });
    const auto single = fields_.get("clusterIP");
    if (!single) return;
    const auto text = read_string(report_, *single);
    if (!text || (list && (*list)->size() > 0 && !service_.cluster_ips.empty())) return;
    if (!service_.headless) add_ip(*single, *text);
  }

  void add_ip(const Field& at, std::string_view text) {
    if (text.empty()) return;
    if (text == "None") {
      service_.headless = true;
      return;
    }
    const auto ip = IpAddress::parse(text);
    if (!ip) return report_.error(at, in_quotes(text) + " is neither an IP address nor None");
    if (ip->is_unspecified())
      return report_.warning(at, in_quotes(text) + " is the unspecified address; it is left out");
    service_.cluster_ips.push_back(*ip);
  }

  void read_ports() {
    const auto ports = fields_.get("ports");
    const bool needs_names = ports && (*ports)->size() > 1;
    for_each_element(report_, ports, [&](const Field& at) { read_port_entry(at, needs_names); });
  }

  void read_port_entry(const Field& at, bool needs_name) {
    const Fields fields(report_, at, {kServicePortNames});
    if (!at->is_mapping()) return;
    ServicePort port;
    if (const auto number = fields.get("port"))
      port.number = read_port(report_, *number).value_or(0);
    else
      report_.error(at, at.path("port"), "missing; specify 1..65535");
    port.protocol = read_kube_protocol(report_, fields.get("protocol"));
    port.app_protocol = read_string_or_empty(report_, fields.get("appProtocol"));
    const auto name = fields.get("name");
    port.name = to_lower(read_string_or_empty(report_, name));
    if (!port.name.empty() && !is_label(port.name))
      report_.error(*name, in_quotes(port.name) +
                               " is not a port name: 1 to 63 letters, digits and inner hyphens");
    if (port.name.empty() && needs_name)
      report_.error(at, at.path("name"), "missing; with several ports each needs a name");
    if (!port.name.empty() && !names_.insert(port.name).second)
      report_.error(*name, in_quotes(port.name) + " is given twice; port names must be unique");
    // A name leaves it to each Pod.
    if (const auto target = fields.get("targetPort"); target && (*target)->as_integer())
      port.target_port = (*target)->as_integer() == 0 ? 0 : read_port(report_, *target).value_or(0);
    service_.ports.push_back(std::move(port));
  }

  Report& report_;
  const Field& spec_;
  Fields fields_;
  bool from_file_;
  KubeService service_;
  std::set<std::string> names_;
};

// Comma-separated and, as Istio has it, never judged.
ExportTo split_export_to(std::string_view text) {
  ExportTo out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
    while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) part.remove_suffix(1);
    if (!part.empty()) out.push_back(to_lower(part));
  }
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
  if (service.type == ServiceType::LoadBalancer) {
    const Node* const status = object.root->find("status");
    const Node* const balancer = status == nullptr ? nullptr : status->find("loadBalancer");
    const Node* const ingress = balancer == nullptr ? nullptr : balancer->find("ingress");
    if (ingress != nullptr && ingress->is_sequence())
      for (const Node& each : *ingress) add_external_address(each.find("ip"), service);
  }
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
  const Fields fields(object.report, object.root, {kServiceNames});
  KubeService service;
  const auto spec = fields.get("spec");
  if (!spec) {
    object.report.error(object.root, "spec", "missing; specify at least ports or clusterIP: None");
  } else if (!(*spec)->is_mapping()) {
    object.report.error(*spec, "expected a mapping, got " + std::string((*spec)->describe()));
  } else {
    service = ServiceReader(object, *spec).read();
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
  const Fields fields(object.report, object.root, {kServiceNames});
  if (const auto spec = fields.get("spec"))
    const Fields spec_fields(object.report, *spec, {kNamespaceSpecNames});
  const TrafficDistribution distribution = read_traffic_distribution(object);
  return Namespace{std::move(object.meta), distribution};
}

}  // namespace meshdns::registry
