// SPDX-License-Identifier: Apache-2.0
// Kinds of Kubernetes: what is read, and fields of real objects do not warn.
#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

IpAddress ip(std::string_view text) { return IpAddress::parse(text).value(); }

// The text's first line is line 4.
std::string object(std::string_view api_version, std::string_view kind, std::string_view text) {
  return "apiVersion: " + std::string(api_version) + "\nkind: " + std::string(kind) +
         "\nmetadata: {name: api, namespace: shop}\n" + std::string(text);
}
std::string service(std::string_view text) { return object("v1", "Service", text); }
std::string slice(std::string_view text) {
  return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
         "metadata: {name: api-1, namespace: shop, labels: {kubernetes.io/service-name: api}}\n" +
         std::string(text);
}

TEST(ServiceTest, ReadsTheFieldsThatDnsUses) {
  const auto result = only<KubeService>(read(R"(
apiVersion: v1
kind: Service
metadata:
  name: api
  annotations: {networking.istio.io/exportTo: " ., Web ,,~ "}
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "fd00::1"]
  selector: {app: api}
  publishNotReadyAddresses: true
  ports:
  - {name: HTTP, port: 80, targetPort: 8080, protocol: TCP, appProtocol: kubernetes.io/h2c}
  - {name: dns, port: 53, targetPort: dns, protocol: UDP}
)"));
  EXPECT_EQ(result.meta.ns, "default");
  EXPECT_FALSE(result.headless);
  EXPECT_EQ(result.cluster_ips, (std::vector<IpAddress>{ip("10.96.0.1"), ip("fd00::1")}));
  EXPECT_EQ(result.ports, (std::vector<ServicePort>{{80, 8080, "http", "TCP", "kubernetes.io/h2c"},
                                                    {53, 0, "dns", "UDP"}}));
  EXPECT_EQ(result.selector, (Labels{{"app", "api"}}));
  EXPECT_TRUE(result.publish_not_ready_addresses);
  EXPECT_EQ(result.export_to, (ExportTo{".", "web", "~"}));
}

TEST(ServiceTest, AliasAndHeadlessHaveNoAddresses) {
  const auto alias = only<KubeService>(read(
      service("spec: {type: ExternalName, externalName: API.Example.org., clusterIP: \"\"}\n")));
  EXPECT_EQ(alias.type, ServiceType::ExternalName);
  EXPECT_EQ(alias.external_name, "api.example.org");
  const auto literal =
      only<KubeService>(read(service("spec: {type: ExternalName, externalName: 192.0.2.1}\n")));
  EXPECT_EQ(literal.external_name, "");
  for (const std::string_view text :
       {"spec: {clusterIP: None, clusterIPs: [None]}\n", "spec: {clusterIP: None}\n"}) {
    const auto headless = only<KubeService>(read(service(text)));
    EXPECT_TRUE(headless.headless);
    EXPECT_TRUE(headless.cluster_ips.empty());
  }
}

// The elements of a list, and its closing bracket.
std::string repeated(std::size_t count, std::string_view element) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text.append(element).append(i + 1 < count ? "," : "]");
  return text;
}

TEST(EndpointSliceTest, ListsAreBounded) {
  const std::string endpoints = "addressType: IPv4\nendpoints: [";
  const std::string address = "{addresses: [\"::1\"]}";
  const std::vector<FindingCase> cases = {
      {"1000 endpoints", endpoints + repeated(1000, address), {}},
      {"1001 endpoints", endpoints + repeated(1001, address), {"5 error endpoints"}},
      {"101 addresses",
       endpoints + "{addresses: [" + repeated(101, "\"::1\"") + "}]\n",
       {"5 error endpoints[0].addresses"}},
  };
  for (const FindingCase& c : cases) expect_findings(c, slice(c.text));
}

TEST(EndpointSliceTest, ReadsConditionsAndPlaces) {
  const auto result = only<EndpointSlice>(read(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: api-1
  labels: {kubernetes.io/service-name: api}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-01-31T12:00:00.250Z"}
addressType: IPv4
ports: [{name: HTTP, port: 8080, protocol: TCP}, {name: any}]
endpoints:
- addresses: [10.0.0.1]
- addresses: [10.0.0.2]
  conditions: {ready: false, serving: true, terminating: true}
  hostname: Db-0
  nodeName: node-a
  zone: zone-a
  targetRef: {kind: Pod, name: db-0, namespace: default}
  hints: {forZones: [{name: zone-a}, {name: zone-b}], forNodes: [{name: node-a}]}
- addresses: [10.0.0.3]
  conditions: {ready: null, serving: null}
  targetRef: {kind: Node, name: n}
  deprecatedTopology: {topology.kubernetes.io/zone: zone-b}
- addresses: [10.0.0.4]
  conditions: {ready: false}
)"));
  EXPECT_EQ(result.service, "api");
  EXPECT_EQ(result.trigger_time_ms, 1769860800250);
  ASSERT_EQ(result.subsets.size(), 1U);
  const auto& endpoints = result.subsets[0].endpoints;
  ASSERT_EQ(endpoints.size(), 4U);
  EXPECT_TRUE(endpoints[0].ready);
  EXPECT_EQ(endpoints[1], (Endpoint{{ip("10.0.0.2")},
                                    false,
                                    "db-0",
                                    "db-0",
                                    "node-a",
                                    "zone-a",
                                    {"zone-a", "zone-b"},
                                    {"node-a"}}));
  EXPECT_TRUE(endpoints[2].ready);
  EXPECT_EQ(endpoints[2].target_name, "");
  EXPECT_EQ(endpoints[2].zone, "zone-b");
  EXPECT_FALSE(endpoints[3].ready);
  EXPECT_EQ(result.subsets[0].ports, (std::vector<ServicePort>{{8080, 0, "http", "TCP"}}));
}

TEST(EndpointSliceTest, OlderVersionKeepsPlacesInTopology) {
  const auto result = only<EndpointSlice>(read(R"(
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata: {name: api-1, labels: {kubernetes.io/service-name: api}}
addressType: IPv6
endpoints:
- addresses: ["2001:db8::1"]
  topology: {kubernetes.io/hostname: node-a, topology.kubernetes.io/zone: zone-a}
)"));
  ASSERT_EQ(result.subsets.at(0).endpoints.size(), 1U);
  EXPECT_EQ(result.subsets[0].endpoints[0].node_name, "node-a");
  EXPECT_EQ(result.subsets[0].endpoints[0].zone, "zone-a");
  EXPECT_TRUE(result.subsets[0].endpoints[0].ready);
}

TEST(EndpointsTest, ReadsSubsetsWithTheirReadiness) {
  const auto result = only<EndpointSlice>(read(object("v1", "Endpoints", R"(
subsets:
- addresses: [{ip: 10.0.0.1, hostname: a, nodeName: n, targetRef: {kind: Pod, name: p}}]
  notReadyAddresses: [{ip: 10.0.0.2}]
  ports: [{name: http, port: 80}]
- addresses: [{ip: "2001:db8::1"}]
)")));
  EXPECT_EQ(result.kind, Kind::Endpoints);
  EXPECT_EQ(result.service, "api");
  ASSERT_EQ(result.subsets.size(), 2U);
  ASSERT_EQ(result.subsets[0].endpoints.size(), 2U);
  EXPECT_TRUE(result.subsets[0].endpoints[0].ready);
  EXPECT_EQ(result.subsets[0].endpoints[0].target_name, "p");
  EXPECT_FALSE(result.subsets[0].endpoints[1].ready);
  EXPECT_EQ(result.subsets[0].ports, (std::vector<ServicePort>{{80, 0, "http", "TCP"}}));
  EXPECT_TRUE(result.subsets[1].ports.empty());
}

TEST(PodTest, ReadsIdentityAndReadiness) {
  const auto result = only<Pod>(read(object("v1", "Pod", R"(
spec:
  hostNetwork: true
  nodeName: node-a
  serviceAccountName: sa
  hostname: Web-0
  subdomain: web
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.10], searches: [Shop.svc.cluster.local, bad_name, "."]}
  containers: [{name: c, image: i, ports: [{containerPort: 80}]}]
status:
  phase: Running
  podIP: 10.0.0.1
  podIPs: [{ip: 10.0.0.1}, {ip: "2001:db8::1"}]
  conditions: [{type: Initialized, status: "True"}, {type: Ready, status: "True"}]
)")));
  EXPECT_TRUE(result.host_network);
  EXPECT_EQ(result.node_name, "node-a");
  EXPECT_EQ(result.service_account, "sa");
  EXPECT_TRUE(result.dns_policy_none);
  EXPECT_EQ(result.searches, std::vector<std::string>{"shop.svc.cluster.local"});
  EXPECT_EQ(result.ips, (std::vector<IpAddress>{ip("10.0.0.1"), ip("2001:db8::1")}));
  EXPECT_TRUE(result.running);
  EXPECT_TRUE(result.ready);
}

// By what its proxy runs with, as Istio knows it; a manifest has the template instead.
TEST(PodTest, IsAGatewayByTheTypeOfItsProxy) {
  const auto is_gateway = [](std::string_view annotations, std::string_view spec) {
    return only<Pod>(read("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {istio: "
                          "ingressgateway}, annotations: {" +
                          std::string(annotations) + "}}\nspec: {" + std::string(spec) + "}\n"))
        .is_gateway;
  };
  const std::string_view app = "{name: app, args: [serve]}, {name: bare}";
  const auto with_proxy = [&](std::string_view list, std::string_view type) {
    return std::string(list) + ": [" + std::string(app) + ", {name: istio-proxy, args: [proxy, " +
           std::string(type) + ", --domain, x]}]";
  };
  EXPECT_TRUE(is_gateway("", with_proxy("containers", "router")));
  EXPECT_TRUE(is_gateway("", with_proxy("containers", "waypoint")));
  EXPECT_FALSE(is_gateway("", with_proxy("containers", "sidecar")));
  EXPECT_FALSE(is_gateway("", with_proxy("initContainers", "sidecar")));
  EXPECT_TRUE(is_gateway("", with_proxy("initContainers", "router")));
  EXPECT_FALSE(is_gateway("", "containers: [" + std::string(app) + "]")) << "a label is no proof";
  EXPECT_FALSE(is_gateway("", ""));
  for (const char* templates : {"gateway", "sidecar, gateway", "kube-gateway", "waypoint"})
    EXPECT_TRUE(is_gateway("inject.istio.io/templates: \"" + std::string(templates) + "\"", ""));
  for (const char* templates : {"sidecar", "", "my-gateway", "gateways"})
    EXPECT_FALSE(is_gateway("inject.istio.io/templates: \"" + std::string(templates) + "\"", ""));
  EXPECT_FALSE(
      is_gateway("inject.istio.io/templates: gateway", with_proxy("containers", "sidecar")))
      << "what runs counts";
  EXPECT_FALSE(is_gateway("", "containers: [{args: [proxy]}, {args: [run, proxy, router]}]"));
}

TEST(PodTest, IsNotRunningWhenItHasEnded) {
  for (const std::string_view phase : {"Succeeded", "Failed", "Unknown"})
    EXPECT_FALSE(only<Pod>(read(object("v1", "Pod",
                                       "spec: {}\nstatus: {phase: " + std::string(phase) + "}\n")))
                     .running);
  EXPECT_TRUE(only<Pod>(read(object("v1", "Pod", "spec: {}\nstatus: {phase: Pending}\n"))).running);
  const auto leaving =
      only<Pod>(read("apiVersion: v1\nkind: Pod\nmetadata: {name: a, deletionTimestamp: "
                     "\"2026-01-31T12:00:00Z\"}\nspec: {}\nstatus: {podIP: 10.0.0.1}\n"));
  EXPECT_FALSE(leaving.running);
  EXPECT_EQ(leaving.ips.size(), 1U);
}

TEST(PodTest, HasTheNameOfItsOwnerUnlessItsLabelsHaveOne) {
  const auto owner_with = [](std::string_view labels, std::string_view owners) {
    return std::string(owner_of(only<Pod>(
        read("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {" + std::string(labels) +
             "}, ownerReferences: " + std::string(owners) + "}\nspec: {}\n"))));
  };
  constexpr std::string_view kHash = "pod-template-hash: 5d4f8";
  const auto owned_by = [](std::string_view kind, std::string_view name) {
    return "[{kind: Node, name: n}, {kind: " + std::string(kind) + ", name: " + std::string(name) +
           ", controller: true}]";
  };
  EXPECT_EQ(owner_with(kHash, owned_by("ReplicaSet", "web-5d4f8")), "web");
  EXPECT_EQ(owner_with(kHash, owned_by("ReplicaSet", "web-other")), "web-other");
  EXPECT_EQ(owner_with(kHash, owned_by("ReplicaSet", "-5d4f8")), "-5d4f8");
  EXPECT_EQ(owner_with("", owned_by("ReplicaSet", "web")), "web");
  EXPECT_EQ(owner_with("", owned_by("Job", "backup-29391230")), "backup");
  EXPECT_EQ(owner_with("", owned_by("Job", "backup-1")), "backup-1");
  EXPECT_EQ(owner_with("", owned_by("StatefulSet", "db")), "db");
  EXPECT_EQ(owner_with("", "[{kind: StatefulSet, name: db}]"), "");
  EXPECT_EQ(owner_with("", "[]"), "");
  EXPECT_EQ(owner_with("", "none"), "");
  EXPECT_EQ(owner_with("app: shop", owned_by("StatefulSet", "db")), "");
}

// 40,000 addresses of one Pod took 14 s.
TEST(PodTest, OfTooManyAddressesIsRefused) {
  const auto with_addresses = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += "{ip: 10.0.0." + std::to_string(i) + "}, ";
    return object("v1", "Pod", "status: {podIPs: [" + list + "]}\n");
  };
  EXPECT_EQ(only<Pod>(read(with_addresses(64))).ips.size(), 64U);
  EXPECT_TRUE(read(with_addresses(65)).says("has 65 elements; meshdns allows at most 64"));
}

TEST(EndpointSliceTest, OfNoPossibleServiceBelongsToNone) {
  for (const std::string& name : {std::string("a_b"), std::string(70'000, 'x')}) {
    const auto collected = read(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: api-1, labels: "
        "{kubernetes.io/service-name: " +
        name + "}}\naddressType: IPv4\nendpoints: []\n");
    EXPECT_TRUE(collected.says("no name of a Service")) << collected.all();
    EXPECT_EQ(only<EndpointSlice>(collected).service, "");
  }
}

TEST(NodeTest, HasNoNamespaceAndAnyStatus) {
  const auto result = only<KubeNode>(
      read("apiVersion: v1\nkind: Node\nmetadata:\n  name: node-1.example.org\n"
           "  labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: a}\n"
           "spec: {podCIDR: 10.1.0.0/24}\nstatus: {nodeInfo: {machineID: x}}\n"));
  EXPECT_EQ(result.meta.name, "node-1.example.org");
  EXPECT_EQ(result.meta.ns, "");
  EXPECT_EQ(locality_of_node(result.meta.labels), (Locality{"r", "a", ""}));
}

TEST(TrafficDistributionTest, OfTheServiceCountsBeforeItsAnnotation) {
  const auto of = [](std::string_view annotation, std::string_view field) {
    return only<KubeService>(
               read("apiVersion: v1\nkind: Service\nmetadata:\n  name: db\n  annotations:\n"
                    "    networking.istio.io/traffic-distribution: " +
                    std::string(annotation) + "\nspec: {clusterIP: None" + std::string(field) +
                    "}\n"))
        .traffic_distribution;
  };
  EXPECT_EQ(of("prefersamezone", ""), TrafficDistribution::SameZone);
  EXPECT_EQ(of("Any", ""), TrafficDistribution::Any);
  EXPECT_EQ(of("PreferClose", ", trafficDistribution: PreferSameNode"),
            TrafficDistribution::SameNode);
  EXPECT_EQ(of("''", ""), TrafficDistribution::Unset);
}

TEST(LocalityTest, IsReadFromEachOfItsForms) {
  EXPECT_EQ(parse_locality("r/a/s"), (Locality{"r", "a", "s"}));
  EXPECT_EQ(parse_locality("/a"), (Locality{"", "a", ""}));
  EXPECT_EQ(parse_locality("r"), (Locality{"r", "", ""}));
  EXPECT_EQ((Locality{"", "a", ""}).to_string(), "/a");
  EXPECT_EQ((Locality{"r", "a", "s"}).to_string(), "r/a/s");
  EXPECT_EQ(locality_of_label({{"istio-locality", "r.a.s"}}), (Locality{"r", "a", "s"}));
  EXPECT_EQ(locality_of_label({{"app", "x"}}), std::nullopt);
  EXPECT_EQ(locality_of_node({{"failure-domain.beta.kubernetes.io/zone", "a"},
                              {"topology.istio.io/subzone", "s"}}),
            (Locality{"", "a", "s"}));
}

TEST(NamespaceTest, HasNoNamespaceItself) {
  const auto result = only<Namespace>(
      read("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, namespace: x, labels: {a: b}}\n"
           "spec: {finalizers: [kubernetes]}\nstatus: {phase: Active}\n"));
  EXPECT_EQ(result.meta.name, "shop");
  EXPECT_EQ(result.meta.ns, "");
  EXPECT_EQ(result.meta.labels, (Labels{{"a", "b"}}));
}

TEST(MultiClusterTest, ReadsImportsAndExports) {
  for (const std::string_view api :
       {"multicluster.x-k8s.io/v1alpha1", "multicluster.x-k8s.io/v1beta1", "net.gke.io/v1"}) {
    const auto import = only<ServiceImport>(read(
        object(api, "ServiceImport",
               "spec: {type: ClusterSetIP, ips: [10.1.0.1], ports: [{name: http, port: 80}]}\n")));
    EXPECT_FALSE(import.headless);
    EXPECT_EQ(import.ips, std::vector<IpAddress>{ip("10.1.0.1")});
    EXPECT_EQ(import.ports, (std::vector<ServicePort>{{80, 0, "http", "TCP"}}));
    EXPECT_EQ(only<ServiceExport>(read(object(api, "ServiceExport", ""))).meta.name, "api");
  }
  EXPECT_TRUE(only<ServiceImport>(read(object("multicluster.x-k8s.io/v1alpha1", "ServiceImport",
                                              "spec: {type: Headless}\n")))
                  .headless);
}

TEST(MultiClusterTest, ReadsSlicesOfImports) {
  const auto read_slice = [](std::string_view metadata) {
    return only<EndpointSlice>(
        read("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: api-1\n" +
             std::string(metadata) + "addressType: IPv4\nendpoints: []\n"));
  };
  const EndpointSlice labelled = read_slice(
      "  labels: {multicluster.kubernetes.io/service-name: api, "
      "multicluster.kubernetes.io/source-cluster: East}\n");
  EXPECT_EQ(labelled.service, "");
  EXPECT_EQ(labelled.imported_service, "api");
  EXPECT_EQ(labelled.source_cluster, "east");
  const EndpointSlice annotated = read_slice(
      "  labels: {multicluster.kubernetes.io/service-name: api, kubernetes.io/service-name: d1}\n"
      "  annotations: {multicluster.kubernetes.io/source-cluster: west}\n");
  EXPECT_EQ(annotated.service, "d1");
  EXPECT_EQ(annotated.imported_service, "api");
  EXPECT_EQ(annotated.source_cluster, "west");
  const EndpointSlice plain = read_slice(
      "  labels: {kubernetes.io/service-name: api}\n"
      "  annotations: {multicluster.kubernetes.io/source-cluster: west}\n");
  EXPECT_EQ(plain.imported_service, "");
  EXPECT_EQ(plain.source_cluster, "");
}

// As `kubectl get -o yaml` prints them, with every field a server fills in.
TEST(KubernetesKindsTest, ObjectsAsTheServerPrintsThemDoNotWarn) {
  const Collected collected = read(R"(
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: v1
  kind: Service
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"Service","metadata":{"annotations":{},"name":"api"}}
    creationTimestamp: "2026-01-31T12:00:00Z"
    labels: {app: api}
    managedFields: [{apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}, manager: kubectl, operation: Update}]
    name: api
    namespace: shop
    resourceVersion: "4711"
    uid: 7c3f0f0e-0000-4000-8000-000000000000
    ownerReferences: []
    finalizers: [a]
    generation: 1
  spec:
    allocateLoadBalancerNodePorts: true
    clusterIP: 10.96.0.1
    clusterIPs: [10.96.0.1]
    externalTrafficPolicy: Cluster
    internalTrafficPolicy: Cluster
    ipFamilies: [IPv4]
    ipFamilyPolicy: SingleStack
    ports: [{appProtocol: http, name: http, nodePort: 30080, port: 80, protocol: TCP, targetPort: http}]
    selector: {app: api}
    sessionAffinity: ClientIP
    sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}
    trafficDistribution: PreferClose
    type: LoadBalancer
  status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: api-0, namespace: shop, generateName: api-, deletionGracePeriodSeconds: 30}
  spec:
    affinity: {}
    automountServiceAccountToken: true
    containers: [{name: c, image: i}]
    dnsPolicy: ClusterFirst
    enableServiceLinks: true
    initContainers: []
    nodeName: n
    preemptionPolicy: PreemptLowerPriority
    priority: 0
    restartPolicy: Always
    schedulerName: default-scheduler
    securityContext: {}
    serviceAccount: sa
    serviceAccountName: sa
    terminationGracePeriodSeconds: 30
    tolerations: []
    topologySpreadConstraints: []
    volumes: []
  status: {phase: Running, podIP: 10.0.0.1, hostIP: 192.0.2.1, qosClass: BestEffort, startTime: null}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: api-1, namespace: shop, labels: {kubernetes.io/service-name: api}}
  addressType: IPv4
  endpoints:
  - addresses: [10.0.0.1]
    conditions: {ready: true, serving: true, terminating: false}
    nodeName: n
    targetRef: {kind: Pod, name: api-0, namespace: shop, uid: u, apiVersion: v1, resourceVersion: "1", fieldPath: f}
    zone: z
  ports: [{appProtocol: http, name: http, port: 8080, protocol: TCP}]
)");
  EXPECT_EQ(collected.all(), "");
  EXPECT_EQ(collected.resources.size(), 3U);
}

}  // namespace
}  // namespace meshdns::registry
