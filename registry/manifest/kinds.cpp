// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/kinds.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "registry/base/did_you_mean.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 3> kIstioVersions = {"v1", "v1beta1", "v1alpha3"};
constexpr std::array<std::string_view, 1> kCoreVersions = {"v1"};
constexpr std::array<std::string_view, 2> kDiscoveryVersions = {"v1", "v1beta1"};
// v1alpha2 is what some controllers still write; the fields we read are the same.
constexpr auto& kMulticlusterVersions = words<"v1 v1beta1 v1alpha1 v1alpha2">;

constexpr auto& kGatewayVersions = words<"v1 v1beta1 v1alpha3 v1alpha2">;
constexpr std::array<std::string_view, 2> kIngressVersions = {"v1", "v1beta1"};

constexpr std::string_view kIstioGroup = "networking.istio.io";
constexpr std::string_view kMulticlusterGroup = "multicluster.x-k8s.io";
constexpr std::string_view kGkeGroup = "net.gke.io";
constexpr std::string_view kGatewayApiGroup = "gateway.networking.k8s.io";

constexpr std::array kReaders = {
    KindReader{Kind::ServiceEntry, kIstioGroup, kIstioVersions, NameRule::Subdomain, true,
               read_service_entry},
    KindReader{Kind::WorkloadEntry, kIstioGroup, kIstioVersions, NameRule::Subdomain, true,
               read_workload_entry},
    KindReader{Kind::Sidecar, kIstioGroup, kIstioVersions, NameRule::Subdomain, true, read_sidecar},
    KindReader{Kind::VirtualService, kIstioGroup, kIstioVersions, NameRule::Subdomain, true,
               read_virtual_service},
    KindReader{Kind::Service, "", kCoreVersions, NameRule::Label, true, read_service},
    KindReader{Kind::EndpointSlice, "discovery.k8s.io", kDiscoveryVersions, NameRule::Subdomain,
               true, read_endpoint_slice},
    KindReader{Kind::Endpoints, "", kCoreVersions, NameRule::Subdomain, true, read_endpoints},
    KindReader{Kind::Pod, "", kCoreVersions, NameRule::Subdomain, true, read_pod},
    KindReader{Kind::Namespace, "", kCoreVersions, NameRule::Label, false, read_namespace},
    KindReader{Kind::Node, "", kCoreVersions, NameRule::Subdomain, false, read_node},
    KindReader{Kind::ConfigMap, "", kCoreVersions, NameRule::Subdomain, true, read_config_map},
    KindReader{Kind::ServiceExport, kMulticlusterGroup, kMulticlusterVersions, NameRule::Label,
               true, read_service_export},
    KindReader{Kind::ServiceImport, kMulticlusterGroup, kMulticlusterVersions, NameRule::Label,
               true, read_service_import},
    KindReader{Kind::ServiceExport, kGkeGroup, kMulticlusterVersions, NameRule::Label, true,
               read_service_export},
    KindReader{Kind::ServiceImport, kGkeGroup, kMulticlusterVersions, NameRule::Label, true,
               read_service_import},
    KindReader{Kind::Gateway, kGatewayApiGroup, kGatewayVersions, NameRule::Subdomain, true,
               read_gateway, true},
    KindReader{Kind::HttpRoute, kGatewayApiGroup, kGatewayVersions, NameRule::Subdomain, true,
               read_http_route, true},
    KindReader{Kind::TlsRoute, kGatewayApiGroup, kGatewayVersions, NameRule::Subdomain, true,
               read_tls_route, true},
    KindReader{Kind::GrpcRoute, kGatewayApiGroup, kGatewayVersions, NameRule::Subdomain, true,
               read_grpc_route, true},
    KindReader{Kind::Ingress, "networking.k8s.io", kIngressVersions, NameRule::Subdomain, true,
               read_ingress, true},
};

// Kinds of Kubernetes, Istio, the Gateway API and what commonly comes with them.
constexpr auto& kWithoutBearing = words<
    "APIService Application AuthorizationPolicy BackendTLSPolicy Certificate "
    "CertificateSigningRequest ClusterIssuer ClusterRole ClusterRoleBinding ControllerRevision "
    "CronJob CSIDriver CSINode CustomResourceDefinition DaemonSet Deployment DestinationRule "
    "EnvoyFilter Event FlowSchema GRPCRoute Gateway GatewayClass HTTPRoute HorizontalPodAutoscaler "
    "Ingress IngressClass Issuer IstioOperator Job Kustomization Lease LimitRange "
    "MutatingWebhookConfiguration NetworkPolicy PeerAuthentication PersistentVolume "
    "PersistentVolumeClaim PodDisruptionBudget PodMonitor PodTemplate PriorityClass "
    "PriorityLevelConfiguration PrometheusRule ProxyConfig ReferenceGrant ReplicaSet "
    "ReplicationController RequestAuthentication ResourceQuota Role RoleBinding RuntimeClass "
    "Secret ServiceAccount ServiceMonitor StatefulSet StorageClass TCPRoute TLSRoute Telemetry "
    "TrafficExtension UDPRoute ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration VerticalPodAutoscaler VolumeAttachment WasmPlugin "
    "WorkloadGroup">;

// The kinds without bearing that belong to watched groups.
constexpr auto& kCoreKinds = words<
    "Event LimitRange PersistentVolume PersistentVolumeClaim PodTemplate ReplicationController "
    "ResourceQuota Secret ServiceAccount">;
constexpr auto& kIstioKinds =
    words<"DestinationRule EnvoyFilter Gateway ProxyConfig WorkloadGroup">;

std::span<const std::string_view> other_kinds_of(std::string_view group) {
  if (group.empty()) return kCoreKinds;
  if (group == kIstioGroup) return kIstioKinds;
  return {};
}

}  // namespace

const KindReader* find_reader(std::string_view group, std::string_view kind) {
  const auto found = std::ranges::find_if(kReaders, [&](const KindReader& reader) {
    return reader.group == group && to_string(reader.kind) == kind;
  });
  return found == kReaders.end() ? nullptr : &*found;
}

const KindReader* find_reader_of_any_group(std::string_view kind) {
  const auto found = std::ranges::find_if(
      kReaders, [&](const KindReader& reader) { return to_string(reader.kind) == kind; });
  return found == kReaders.end() ? nullptr : &*found;
}

bool is_kind_without_bearing(std::string_view kind) {
  return std::ranges::find(kWithoutBearing, kind) != kWithoutBearing.end();
}

bool is_watched_group(std::string_view group) {
  return std::ranges::any_of(kReaders, [&](const KindReader& reader) {
    return !reader.is_optional && reader.group == group;
  });
}

std::string did_you_mean_kind(std::string_view group, std::string_view kind) {
  const auto others = other_kinds_of(group);
  std::vector<std::string_view> names(others.begin(), others.end());
  for (const KindReader& reader : kReaders)
    if (reader.group == group && !reader.is_optional) names.push_back(to_string(reader.kind));
  return did_you_mean(kind, names);
}

std::optional<std::string> nearest_group(std::string_view group) {
  std::vector<std::string_view> groups;
  for (const KindReader& reader : kReaders)
    if (!reader.is_optional && !reader.group.empty() &&
        std::ranges::find(groups, reader.group) == groups.end())
      groups.push_back(reader.group);
  return nearest_word(group, groups);
}

}  // namespace meshdns::registry
