// SPDX-License-Identifier: Apache-2.0
#include "registry/model/resources.hpp"

#include <algorithm>
#include <tuple>

#include "registry/base/each_once.hpp"
#include "registry/base/enum_text.hpp"
#include "registry/base/host_name.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::registry {

std::string_view to_string(Kind kind) {
  static constexpr std::string_view texts[] = {
      "unknown kind",   "ServiceEntry",  "WorkloadEntry", "Sidecar",
      "Service",        "EndpointSlice", "Endpoints",     "Pod",
      "Namespace",      "ServiceExport", "ServiceImport", "NameTableEntry",
      "VirtualService", "ConfigMap",     "Node",          "Gateway",
      "HTTPRoute",      "TLSRoute",      "GRPCRoute",     "Ingress"};
  return enum_text<Kind::Ingress>(kind, texts);
}

std::string_view to_string(Resolution resolution) {
  return enum_text<Resolution::DynamicDns>(
      resolution, {"NONE", "STATIC", "DNS", "DNS_ROUND_ROBIN", "DYNAMIC_DNS"});
}

Labels selectable_labels(const WorkloadEntry& workload) {
  Labels labels = workload.meta.labels;
  for (const auto& label : workload.spec.labels)
    if (std::ranges::none_of(workload.meta.labels,
                             [&](const auto& l) { return l.first == label.first; }))
      labels.push_back(label);
  std::ranges::sort(labels);
  return labels;
}

namespace {

constexpr std::string_view kOnlyFamily = ":ip_families";
constexpr std::string_view kOutboundPolicy = ":outbound_traffic_policy";
constexpr std::string_view kOwner = ":owner";

// Fields that are kept as labels of the object.
std::string_view text_field(const ObjectMeta& meta, std::string_view name) {
  const Labels& labels = meta.labels;
  const auto found = std::ranges::find(labels, name, &Labels::value_type::first);
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

void set_text_field(ObjectMeta& meta, std::string_view name, std::string_view value) {
  Labels& labels = meta.labels;
  const auto at = std::ranges::lower_bound(labels, name, {}, &Labels::value_type::first);
  if (at != labels.end() && at->first == name)
    at->second = value;
  else
    labels.emplace(at, name, value);
}

}  // namespace

std::string_view only_family_of(const KubeService& service) {
  return text_field(service.meta, kOnlyFamily);
}

void set_only_family(KubeService& service, std::string_view family) {
  set_text_field(service.meta, kOnlyFamily, family);
}

std::string_view owner_of(const Pod& pod) { return text_field(pod.meta, kOwner); }

void set_owner(Pod& pod, std::string_view name) { set_text_field(pod.meta, kOwner, name); }

std::string_view to_string(OutboundPolicy policy) {
  return enum_text<OutboundPolicy::AllowAny>(policy, {"REGISTRY_ONLY", "ALLOW_ANY"});
}

std::optional<OutboundPolicy> outbound_policy_of(const ObjectMeta& meta) {
  const std::string_view text = text_field(meta, kOutboundPolicy);
  if (text.empty()) return std::nullopt;
  return text == to_string(OutboundPolicy::RegistryOnly) ? OutboundPolicy::RegistryOnly
                                                         : OutboundPolicy::AllowAny;
}

void set_outbound_policy(ObjectMeta& meta, OutboundPolicy policy) {
  set_text_field(meta, kOutboundPolicy, to_string(policy));
}

bool is_older(const ObjectMeta& a, const ObjectMeta& b) {
  return std::tie(a.creation_time, a.ns, a.name, a.cluster) <
         std::tie(b.creation_time, b.ns, b.name, b.cluster);
}

Kind kind_of(const Resource& resource) {
  struct KindOf {
    Kind operator()(const ServiceEntry&) const { return Kind::ServiceEntry; }
    Kind operator()(const WorkloadEntry&) const { return Kind::WorkloadEntry; }
    Kind operator()(const Sidecar&) const { return Kind::Sidecar; }
    Kind operator()(const KubeService&) const { return Kind::Service; }
    Kind operator()(const EndpointSlice& slice) const { return slice.kind; }
    Kind operator()(const Pod&) const { return Kind::Pod; }
    Kind operator()(const Namespace&) const { return Kind::Namespace; }
    Kind operator()(const ServiceExport&) const { return Kind::ServiceExport; }
    Kind operator()(const ServiceImport&) const { return Kind::ServiceImport; }
    Kind operator()(const NameTableEntry&) const { return Kind::NameTableEntry; }
    Kind operator()(const VirtualService&) const { return Kind::VirtualService; }
    Kind operator()(const MeshConfig&) const { return Kind::ConfigMap; }
    Kind operator()(const KubeNode&) const { return Kind::Node; }
    Kind operator()(const Gateway&) const { return Kind::Gateway; }
    Kind operator()(const GatewayRoute& route) const { return route.kind; }
    Kind operator()(const Ingress&) const { return Kind::Ingress; }
  };
  return std::visit(KindOf{}, resource);
}

const ObjectMeta& meta_of(const Resource& resource) {
  return std::visit([](const auto& object) -> const ObjectMeta& { return object.meta; }, resource);
}

ObjectMeta& meta_of(Resource& resource) {
  return std::visit([](auto& object) -> ObjectMeta& { return object.meta; }, resource);
}

ResourceKey key_of(const Resource& resource) {
  const ObjectMeta& meta = meta_of(resource);
  return {kind_of(resource), meta.cluster, meta.ns, meta.name};
}

std::string ResourceKey::to_string() const {
  std::string out(registry::to_string(kind));
  out += ' ';
  if (!cluster.empty()) out += cluster + ":";
  if (!ns.empty()) out += ns + "/";
  return out + name;
}

std::string service_host(std::string_view name, std::string_view ns,
                         std::string_view cluster_domain) {
  std::string host;
  host.reserve(name.size() + ns.size() + cluster_domain.size() + 6);
  host.append(name).append(1, '.').append(ns).append(".svc.").append(cluster_domain);
  return to_lower(host);
}

bool has_status_vips(const ServiceEntry& entry) {
  return entry.auto_allocate && entry.addresses.empty() && entry.resolution != Resolution::None;
}

bool wants_vip(const ServiceEntry& entry, std::string_view host) {
  return has_status_vips(entry) &&
         (!host.starts_with("*") || entry.resolution == Resolution::DynamicDns);
}

std::vector<std::string> hosts_of(const Resource& resource, const MeshSettings& settings) {
  const std::string& domain = settings.cluster_domain;
  if (const auto* entry = std::get_if<ServiceEntry>(&resource)) {
    std::vector<std::string> hosts = entry->hosts;
    sort_each_once(hosts);
    return hosts;
  }
  if (const auto* service = std::get_if<KubeService>(&resource))
    return {service_host(service->meta.name, service->meta.ns, domain)};
  if (const auto* slice = std::get_if<EndpointSlice>(&resource)) {
    std::vector<std::string> hosts;
    if (!slice->service.empty())
      hosts.push_back(service_host(slice->service, slice->meta.ns, domain));
    if (!slice->imported_service.empty())
      hosts.push_back(service_host(slice->imported_service, slice->meta.ns, kClusterSetDomain));
    return hosts;
  }
  if (const auto* import = std::get_if<ServiceImport>(&resource))
    return {service_host(import->meta.name, import->meta.ns, kClusterSetDomain)};
  if (const auto* exported = std::get_if<ServiceExport>(&resource))
    return {service_host(exported->meta.name, exported->meta.ns, kClusterSetDomain)};
  if (const auto* name = std::get_if<NameTableEntry>(&resource)) {
    std::vector<std::string> hosts{name->meta.name};
    hosts.insert(hosts.end(), name->alt_hosts.begin(), name->alt_hosts.end());
    return hosts;
  }
  return {};
}

}  // namespace meshdns::registry
