// SPDX-License-Identifier: Apache-2.0
// The resources that the registry reads, reduced to the fields that have a bearing on names and
// endpoints.  Plain values that have passed validation (registry/manifest/validate.hpp).
// Field names follow networking.istio.io/v1, core/v1, discovery.k8s.io/v1, networking.k8s.io/v1,
// gateway.networking.k8s.io/v1 and multicluster.x-k8s.io/v1alpha1.  All host names and labels of
// names are canonical (lower case, no final dot).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

enum class Kind : std::uint8_t {
  ServiceEntry = 1,
  WorkloadEntry,
  Sidecar,
  Service,
  EndpointSlice,
  Endpoints,
  Pod,
  Namespace,
  ServiceExport,
  ServiceImport,
  NameTableEntry,
  VirtualService,
  ConfigMap,
  Node,
  Gateway,  // from here on: see is_gateway_kind()
  HttpRoute,
  TlsRoute,
  GrpcRoute,
  Ingress,
};
std::string_view to_string(Kind kind);  // "ServiceEntry"

// The creation time of an object without creationTimestamp: before every time that a manifest can
// give, so that the object counts as the oldest.  1970-01-01 is a time like any other.
constexpr std::int64_t kUnknownCreationTime = std::numeric_limits<std::int64_t>::min();

struct ObjectMeta {
  std::string name;
  std::string ns;       // empty for cluster-scoped objects; "default" where a file leaves it out
  std::string cluster;  // the `cluster` of the source; empty = the only one
  std::string network;  // the `network` of the source; default network of its endpoints
  Labels labels;
  std::int64_t creation_time = kUnknownCreationTime;  // Unix seconds

  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

struct ServicePort {
  std::uint16_t number = 0;
  std::uint16_t target_port = 0;  // 0 = number; named target ports of Kubernetes are 0, too
  std::string name;               // lower case
  std::string protocol;  // ServiceEntry: as written, upper case ("HTTP"); Kubernetes: TCP UDP SCTP
  std::string app_protocol = {};  // of a Kubernetes Service, as written: "kubernetes.io/h2c"
  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

enum class Resolution : std::uint8_t { None, Static, Dns, DnsRoundRobin, DynamicDns };
std::string_view to_string(Resolution resolution);  // "NONE", "STATIC", ...

enum class Location : std::uint8_t { MeshExternal, MeshInternal };

// exportTo as declared; empty = the mesh's default.  Entries: ".", "*", "~", namespace names.
using ExportTo = std::vector<std::string>;

// The spec of a WorkloadEntry, also inline as ServiceEntry.spec.endpoints.
struct WorkloadSpec {
  std::string address;  // IP text, canonical host name, "unix:///path", "unix://@name", or empty
  std::vector<std::pair<std::string, std::uint16_t>> ports;  // service port name -> port
  Labels labels;
  std::string network;
  std::string locality;
  std::string service_account;
  std::uint32_t weight = 0;  // 0 = 1
  friend bool operator==(const WorkloadSpec&, const WorkloadSpec&) = default;
};

struct StatusAddress {
  std::string host;  // empty = every host of the entry (older istiod)
  IpAddress value;
  friend bool operator==(const StatusAddress&, const StatusAddress&) = default;
};

struct ServiceEntry {
  ObjectMeta meta;
  std::vector<std::string> hosts;
  std::vector<IpPrefix> addresses;
  std::vector<ServicePort> ports;
  Location location = Location::MeshExternal;
  Resolution resolution = Resolution::None;
  std::vector<WorkloadSpec> endpoints;
  std::optional<Labels> workload_selector;
  ExportTo export_to;
  std::vector<std::string> subject_alt_names;
  std::vector<StatusAddress> status_addresses;
  bool auto_allocate = true;  // false: label networking.istio.io/enable-autoallocate-ip is "false"
  // Annotation networking.istio.io/traffic-distribution.
  TrafficDistribution traffic_distribution = TrafficDistribution::Unset;
  friend bool operator==(const ServiceEntry&, const ServiceEntry&) = default;
};

struct WorkloadEntry {
  ObjectMeta meta;  // meta.labels win over spec.labels
  WorkloadSpec spec;
  // false: annotation proxy.istio.io/health-checks-enabled is "true" and status condition Healthy
  // is not True.
  bool healthy = true;
  friend bool operator==(const WorkloadEntry&, const WorkloadEntry&) = default;
};

// Labels for selectors: metadata.labels, and those of spec.labels with other keys.
Labels selectable_labels(const WorkloadEntry& workload);

struct EgressListener {
  std::uint16_t port = 0;  // 0 = no port, all services
  std::string protocol;
  std::vector<std::string> hosts;  // "ns/dnsName", canonical dnsName; a leading "~" excludes
  friend bool operator==(const EgressListener&, const EgressListener&) = default;
};

// outboundTrafficPolicy.mode: whether a proxy lets traffic to destinations that the mesh does not
// have pass.  ALLOW_ANY_DYNAMIC_DNS of MeshConfig does.
enum class OutboundPolicy : std::uint8_t { RegistryOnly, AllowAny };
std::string_view to_string(OutboundPolicy policy);  // "REGISTRY_ONLY"

// The policy of a Sidecar or MeshConfig; nullopt: it has none.  A label that no object of
// Kubernetes can have, and no field: see only_family_of().
std::optional<OutboundPolicy> outbound_policy_of(const ObjectMeta& meta);
void set_outbound_policy(ObjectMeta& meta, OutboundPolicy policy);

struct Sidecar {
  ObjectMeta meta;
  std::optional<Labels> workload_selector;
  std::vector<EgressListener> egress;  // empty = "*/*"
  friend bool operator==(const Sidecar&, const Sidecar&) = default;
};

// The annotations `external-dns.alpha.kubernetes.io/...` of an object.
struct DnsAnnotations {
  std::vector<std::string> hostnames;  // hostname and internal-hostname; canonical
  std::vector<std::string> targets;    // IP text or canonical host names
  std::uint32_t ttl = 0;               // seconds; 0 = none
  friend bool operator==(const DnsAnnotations&, const DnsAnnotations&) = default;
};

enum class ServiceType : std::uint8_t { ClusterIp, NodePort, LoadBalancer, ExternalName };

struct KubeService {
  ObjectMeta meta;
  ServiceType type = ServiceType::ClusterIp;
  bool headless = false;  // clusterIP: None
  // From spec.externalIPs, and from status.loadBalancer if the type is LoadBalancer.
  std::vector<IpAddress> external_addresses;
  std::vector<IpAddress> cluster_ips;  // clusterIPs, else clusterIP; empty while none is assigned
  // Canonical; only of type ExternalName.  Empty when it is an IP address: that is no name to lead
  // to.
  std::string external_name;
  std::vector<ServicePort> ports;
  Labels selector;
  bool publish_not_ready_addresses = false;
  ExportTo export_to;  // annotation networking.istio.io/exportTo
  // From a file, neither headless nor an ExternalName, and without an address: a manifest that no
  // API server has taken.  Nothing is known of the Service but that somebody wants it.
  bool is_manifest = false;
  // spec.trafficDistribution, else the annotation networking.istio.io/traffic-distribution.
  TrafficDistribution traffic_distribution = TrafficDistribution::Unset;
  std::optional<DnsAnnotations> dns;  // read only with `mesh.gateway_names`
  friend bool operator==(const KubeService&, const KubeService&) = default;
};

// "IPv4" or "IPv6": the Service has that family, and its endpoints' addresses of the other one are
// not its own; empty: all are.  The slices of Kubernetes have none of the other family, but the
// workloads of istiod and WorkloadEntries have.  A label that no object of Kubernetes can have, and
// no field: state files stay as they were, so that the version before reads them, too.
std::string_view only_family_of(const KubeService& service);
void set_only_family(KubeService& service, std::string_view family);

struct Endpoint {
  std::vector<IpAddress> addresses;
  bool ready = true;  // condition `ready` true or absent
  std::string hostname;
  std::string target_name;  // targetRef.name of a Pod
  std::string node_name;
  std::string zone;
  // hints.forZones and hints.forNodes: the clients that the control plane gives it to.
  std::vector<std::string> hinted_zones = {};
  std::vector<std::string> hinted_nodes = {};
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// One EndpointSlice, or one v1 Endpoints object (one subset per element of `subsets`).
struct EndpointSubset {
  std::vector<Endpoint> endpoints;
  std::vector<ServicePort> ports;  // number is the endpoint's own (target) port
  friend bool operator==(const EndpointSubset&, const EndpointSubset&) = default;
};
struct EndpointSlice {
  ObjectMeta meta;
  Kind kind = Kind::EndpointSlice;  // or Kind::Endpoints
  std::string service;  // label kubernetes.io/service-name; the object's own name for Endpoints
  // Label multicluster.kubernetes.io/service-name: the ServiceImport whose endpoints of one cluster
  // these are.
  std::string imported_service;
  // multicluster.kubernetes.io/source-cluster, lower case: the id of that cluster; empty = unknown.
  std::string source_cluster;
  std::vector<EndpointSubset> subsets;
  // annotation endpoints.kubernetes.io/last-change-trigger-time, Unix milliseconds; 0 = absent
  std::int64_t trigger_time_ms = 0;
  // Its source follows the endpoints of headless Services: those of others are not all known, and
  // none of them is answered.
  bool headless_only = false;
  friend bool operator==(const EndpointSlice&, const EndpointSlice&) = default;
};

struct Pod {
  ObjectMeta meta;
  std::vector<IpAddress> ips;  // status.podIPs, else status.podIP
  bool host_network = false;
  bool running = true;  // phase not Succeeded/Failed/Unknown, no deletionTimestamp
  // Terminating or of phase Unknown, and neither Succeeded nor Failed: it still holds its address.
  bool leaving = false;
  bool ready = false;  // condition Ready is True
  std::string node_name;
  std::string service_account;
  // Effective search list as far as the Pod itself decides: dnsConfig.searches; with dnsPolicy None
  // these alone, else they come after the cluster's.
  bool dns_policy_none = false;
  std::vector<std::string> searches;
  // Its proxy is a gateway or a waypoint: no Sidecar narrows what it sees.
  bool is_gateway = false;
  friend bool operator==(const Pod&, const Pod&) = default;
};

// The controller that has made a Pod (metadata.ownerReferences): of a ReplicaSet its Deployment, of
// a Job its CronJob; empty: none.  Kept as only_family_of() is.
std::string_view owner_of(const Pod& pod);
void set_owner(Pod& pod, std::string_view name);

struct Namespace {
  ObjectMeta meta;
  // Annotation networking.istio.io/traffic-distribution: of its services without a setting.
  TrafficDistribution traffic_distribution = TrafficDistribution::Unset;
  friend bool operator==(const Namespace&, const Namespace&) = default;
};

struct ServiceExport {
  ObjectMeta meta;
  friend bool operator==(const ServiceExport&, const ServiceExport&) = default;
};

struct ServiceImport {
  ObjectMeta meta;
  bool headless = false;  // spec.type
  std::vector<IpAddress> ips;
  std::vector<ServicePort> ports;
  friend bool operator==(const ServiceImport&, const ServiceImport&) = default;
};

// One host of an istiod NameTable (istio.networking.nds.v1.NameTable.NameInfo); meta.name is the
// host, meta.ns the namespace given there.
struct NameTableEntry {
  ObjectMeta meta;
  std::vector<IpAddress> ips;
  bool kubernetes = false;  // registry "Kubernetes", else "External"
  std::string short_name;
  std::vector<std::string> alt_hosts;
  friend bool operator==(const NameTableEntry&, const NameTableEntry&) = default;
};

// A condition for a route, as far as a connection can meet it.
struct RouteMatch {
  std::uint16_t port = 0;              // 0 = any
  std::vector<std::string> sni_hosts;  // canonical, maybe wildcards; empty = any
  std::vector<IpPrefix> subnets;       // empty = any
  std::string source_namespace;        // empty = any
  Labels source_labels;
  // Further conditions on a request, in words: `uri prefix "/v2", header end-user`.
  std::string request;
  friend bool operator==(const RouteMatch&, const RouteMatch&) = default;
};

struct RouteTarget {
  std::string host;  // canonical as written: a short name is of the VirtualService's namespace
  std::string subset;
  std::uint16_t port = 0;  // 0 = the service's
  std::uint32_t weight = 0;
  friend bool operator==(const RouteTarget&, const RouteTarget&) = default;
};

enum class RouteLayer : std::uint8_t { Http, Tls, Tcp };

struct TrafficRoute {
  RouteLayer layer = RouteLayer::Http;
  std::uint32_t position = 0;  // in its list of the VirtualService
  std::string name;
  std::vector<RouteMatch> matches;  // those for the mesh; one of them suffices
  std::vector<RouteTarget> targets;
  std::string action;  // instead of targets, in words: "redirect", "delegate shop/reviews"
  friend bool operator==(const TrafficRoute&, const TrafficRoute&) = default;
};

// Changes no name and no answer; explanations of connections name it.  It has the routes for the
// mesh, without those for gateways.
struct VirtualService {
  ObjectMeta meta;
  std::vector<std::string> hosts;  // canonical as written
  std::vector<TrafficRoute> routes;
  ExportTo export_to;
  friend bool operator==(const VirtualService&, const VirtualService&) = default;
};

// MeshConfig.serviceEntryVisibility: a limit to the visibility that exportTo gives.
enum class Visibility : std::uint8_t { Public, Namespace, None };

// The first policy whose rules all match decides.
struct VisibilityPolicy {
  Visibility visibility = Visibility::Public;
  std::vector<LabelSelector> namespace_selectors;  // of each matching rule
  friend bool operator==(const VisibilityPolicy&, const VisibilityPolicy&) = default;
};
struct ServiceEntryVisibility {
  Visibility default_visibility = Visibility::Public;
  std::vector<VisibilityPolicy> policies;
  friend bool operator==(const ServiceEntryVisibility&, const ServiceEntryVisibility&) = default;
};

// The MeshConfig and the MeshNetworks in a ConfigMap of Istio (Kind::ConfigMap), reduced to the
// fields that change names.  A field that it does not set has no value.
struct MeshConfig {
  ObjectMeta meta;
  std::optional<std::string> root_namespace;
  std::optional<ExportTo> default_service_export_to;
  std::optional<ServiceEntryVisibility> service_entry_visibility;
  MeshNetworks networks;
  friend bool operator==(const MeshConfig&, const MeshConfig&) = default;
};

// core/v1 Node.
struct KubeNode {
  ObjectMeta meta;  // the labels tell the locality
  friend bool operator==(const KubeNode&, const KubeNode&) = default;
};

// allowedRoutes.namespaces.from
enum class RouteNamespaces : std::uint8_t { Same, All, Selector, None };

struct GatewayListener {
  std::string name;
  std::string hostname;  // canonical, maybe "*.suffix"; empty = any
  std::uint16_t port = 0;
  std::vector<Kind> kinds;  // of routes that may attach
  RouteNamespaces from = RouteNamespaces::Same;
  LabelSelector namespaces;  // of RouteNamespaces::Selector
  friend bool operator==(const GatewayListener&, const GatewayListener&) = default;
};

struct Gateway {
  ObjectMeta meta;
  std::string class_name;
  std::vector<GatewayListener> listeners;
  std::vector<std::string> spec_hosts;  // spec.addresses of type Hostname; canonical
  std::vector<std::string> addresses;   // status.addresses: IP text or canonical host names
  // From spec.addresses of type IPAddress if the class is istio-remote: the gateway of a network
  // that this cluster does not have.
  std::vector<IpAddress> remote_addresses;
  DnsAnnotations dns;
  friend bool operator==(const Gateway&, const Gateway&) = default;
};

// A parentRef to a Gateway.
struct GatewayRef {
  std::string ns;
  std::string name;
  std::string section;     // a listener; empty = all
  std::uint16_t port = 0;  // of listeners; 0 = all
  friend bool operator==(const GatewayRef&, const GatewayRef&) = default;
};

// An HTTPRoute, TLSRoute or GRPCRoute.
struct GatewayRoute {
  ObjectMeta meta;
  Kind kind = Kind::HttpRoute;
  std::vector<std::string> hostnames;  // canonical, maybe "*.suffix"; empty = the listeners'
  std::vector<GatewayRef> parents;     // without those whose controller has refused the route
  DnsAnnotations dns;
  friend bool operator==(const GatewayRoute&, const GatewayRoute&) = default;
};

struct Ingress {
  ObjectMeta meta;
  std::string class_name;              // or the annotation kubernetes.io/ingress.class
  std::vector<std::string> hosts;      // of the rules; canonical, maybe "*.suffix"
  std::vector<std::string> addresses;  // status.loadBalancer: IP text or canonical host names
  DnsAnnotations dns;
  friend bool operator==(const Ingress&, const Ingress&) = default;
};

// Returns whether objects of that kind are read only with `mesh.gateway_names`, and give nothing
// but names.
constexpr bool is_gateway_kind(Kind kind) { return kind >= Kind::Gateway && kind <= Kind::Ingress; }

using Resource = std::variant<ServiceEntry, WorkloadEntry, Sidecar, KubeService, EndpointSlice, Pod,
                              Namespace, ServiceExport, ServiceImport, NameTableEntry,
                              VirtualService, MeshConfig, KubeNode, Gateway, GatewayRoute, Ingress>;

// The identity of an object: kind, cluster, namespace and name.
struct ResourceKey {
  Kind kind = Kind::ServiceEntry;
  std::string cluster;
  std::string ns;
  std::string name;
  std::string to_string() const;  // "ServiceEntry shop/api"
  friend auto operator<=>(const ResourceKey&, const ResourceKey&) = default;
};

// Order by age: creation time, then namespace, then name, then cluster.
bool is_older(const ObjectMeta& a, const ObjectMeta& b);

Kind kind_of(const Resource& resource);
const ObjectMeta& meta_of(const Resource& resource);
ObjectMeta& meta_of(Resource& resource);
ResourceKey key_of(const Resource& resource);

struct MeshSettings;

// The hosts to which a resource contributes, with their namespaces' records: a ServiceEntry's
// hosts, a Service's full name, the full name of a slice's Service, ...
std::vector<std::string> hosts_of(const Resource& resource, const MeshSettings& settings);

// Returns whether the addresses of the entry's status are those of its hosts, wildcards among them.
bool has_status_vips(const ServiceEntry& entry);
// Returns whether the entry's host takes an address of the allocator (docs/semantics-istio.md,
// "VIPs").
bool wants_vip(const ServiceEntry& entry, std::string_view host);

// The full name of a Kubernetes Service.
std::string service_host(std::string_view name, std::string_view ns,
                         std::string_view cluster_domain);

}  // namespace meshdns::registry
