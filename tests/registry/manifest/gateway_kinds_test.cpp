// SPDX-License-Identifier: Apache-2.0
// The kinds that give names to gateways: Gateways, routes, Ingresses, and annotations.
#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

const ManifestOptions kAllKinds{.path = "test.yaml",
                                .cluster = {},
                                .network = {},
                                .gateway_kinds = {Kind::Gateway, Kind::HttpRoute, Kind::TlsRoute,
                                                  Kind::GrpcRoute, Kind::Ingress, Kind::Service}};

std::string gateway_api(std::string_view kind, std::string_view rest,
                        std::string_view version = "v1") {
  return "apiVersion: gateway.networking.k8s.io/" + std::string(version) +
         "\nkind: " + std::string(kind) + "\n" + std::string(rest);
}

TEST(GatewayKindsTest, AreReadOnlyIfTheyAreChosen) {
  const std::string route = gateway_api("HTTPRoute", "metadata: {name: r}\n");
  EXPECT_TRUE(read(route).resources.empty());
  EXPECT_TRUE(read(route).findings.empty());
  ManifestOptions others = kAllKinds;
  others.gateway_kinds = {Kind::Gateway, Kind::Ingress};
  EXPECT_TRUE(read(route, others).resources.empty());
  EXPECT_EQ(read(route, kAllKinds).resources.size(), 1U);
  // Istio's own Gateway is another kind, and so are others of the groups.
  for (const char* const text :
       {"apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g}\n",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: g}\n",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: g}\n",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: g}\n"}) {
    const Collected collected = read(text, kAllKinds);
    EXPECT_TRUE(collected.resources.empty()) << text;
    EXPECT_TRUE(collected.findings.empty()) << collected.all();
  }
}

TEST(GatewayKindsTest, HaveSeveralVersions) {
  for (const char* const version : {"v1", "v1beta1", "v1alpha3", "v1alpha2"})
    EXPECT_EQ(
        read(gateway_api("TLSRoute", "metadata: {name: r}\n", version), kAllKinds).resources.size(),
        1U)
        << version;
  EXPECT_TRUE(read(gateway_api("TLSRoute", "metadata: {name: r}\n", "v9"), kAllKinds)
                  .says("is not supported"));
}

TEST(GatewayKindsTest, ReadTheListenersOfAGateway) {
  const auto gateway =
      only<Gateway>(read(gateway_api("Gateway", R"(metadata: {name: g, namespace: n}
spec:
  gatewayClassName: istio
  addresses: [{type: Hostname, value: In.n.svc.cluster.local}, {value: 192.0.2.7}]
  listeners:
    - {name: a, port: 80, protocol: HTTP, hostname: "*.Example.org"}
    - {name: b, port: 443, protocol: TLS, allowedRoutes: {namespaces: {from: All}}}
    - {name: c, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}, {kind: TLSRoute}, {group: x.org, kind: HTTPRoute}]}}
    - {name: d, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: t, operator: Exists}]}}}}
    - {name: e, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector}}}
    - {name: f, port: 53, protocol: UDP}
status: {addresses: [{value: 192.0.2.1}, {value: 0.0.0.0}, {type: Hostname, value: LB.example.net.}]}
)"),
                         kAllKinds));
  EXPECT_EQ(gateway.class_name, "istio");
  EXPECT_EQ(gateway.spec_hosts, std::vector<std::string>{"in.n.svc.cluster.local"});
  EXPECT_EQ(gateway.addresses, (std::vector<std::string>{"192.0.2.1", "lb.example.net"}));
  ASSERT_EQ(gateway.listeners.size(), 6U);
  const auto& listeners = gateway.listeners;
  EXPECT_EQ(listeners[0].hostname, "*.example.org");
  EXPECT_EQ(listeners[0].kinds, (std::vector{Kind::HttpRoute, Kind::GrpcRoute}));
  EXPECT_EQ(listeners[0].from, RouteNamespaces::Same);
  EXPECT_EQ(listeners[1].kinds, std::vector{Kind::TlsRoute});
  EXPECT_EQ(listeners[1].from, RouteNamespaces::All);
  EXPECT_EQ(listeners[2].kinds, std::vector{Kind::GrpcRoute});
  EXPECT_TRUE(selects(listeners[3].namespaces, {{"t", "x"}}));
  EXPECT_FALSE(selects(listeners[3].namespaces, {}));
  EXPECT_FALSE(selects(listeners[4].namespaces, {{"t", "x"}})) << "no selector selects nobody";
  EXPECT_TRUE(listeners[5].kinds.empty());
}

TEST(GatewayKindsTest, ReadTheAddressesOfTheGatewayOfANetwork) {
  const auto gateway_of = [](std::string_view class_name, std::string_view label) {
    return read(
        gateway_api("Gateway", "metadata: {name: g, labels: {" + std::string(label) +
                                   "}}\nspec:\n  gatewayClassName: " + std::string(class_name) + R"(
  addresses:
    - {type: IPAddress, value: 192.0.2.1}
    - {value: "2001:db8::1"}
    - {type: Hostname, value: gw.example.org}
    - {value: 0.0.0.0}
)"),
        kAllKinds);
  };
  const Collected remote = gateway_of("istio-remote", "topology.istio.io/network: west");
  EXPECT_EQ(only<Gateway>(remote).remote_addresses,
            (std::vector{*IpAddress::parse("192.0.2.1"), *IpAddress::parse("2001:db8::1")}));
  ASSERT_EQ(remote.findings.size(), 2U);
  EXPECT_EQ(remote.findings[0].field, "spec.addresses[2]");
  EXPECT_EQ(
      remote.findings[0].message,
      "is no IP address: only these can be answered as gateways of network \"west\", and this "
      "one is left out");
  for (const Collected& other : {gateway_of("istio", "topology.istio.io/network: west"),
                                 gateway_of("istio-remote", "a: b")}) {
    EXPECT_TRUE(only<Gateway>(other).remote_addresses.empty());
    EXPECT_TRUE(other.findings.empty());
  }
}

TEST(GatewayKindsTest, FaultyNamesAreLeftOutAndNeverStandForAll) {
  const Collected of_listener =
      read(gateway_api("Gateway",
                       "metadata: {name: g}\nspec:\n  listeners:\n    - {name: a, port: 80, "
                       "protocol: HTTP, hostname: \"a_b!\", allowedRoutes: {namespaces: "
                       "{from: All}}}\n"),
           kAllKinds);
  EXPECT_EQ(of_listener.places(), std::vector<std::string>{"6 warning spec.listeners[0].hostname"});
  EXPECT_EQ(only<Gateway>(of_listener).listeners.front().from, RouteNamespaces::None);
  const Collected of_route = read(
      gateway_api("HTTPRoute",
                  "metadata: {name: r}\nspec: {parentRefs: [{name: g}], hostnames: [1.2.3.4]}\n"),
      kAllKinds);
  EXPECT_EQ(of_route.places(), std::vector<std::string>{"4 warning spec.hostnames[0]"});
  EXPECT_TRUE(only<GatewayRoute>(of_route).parents.empty());
}

TEST(GatewayKindsTest, ReadTheParentsOfARoute) {
  const auto route =
      only<GatewayRoute>(read(gateway_api("GRPCRoute", R"(metadata: {name: r, namespace: n}
spec:
  hostnames: [A.example.org]
  parentRefs:
    - {name: own, sectionName: s}
    - {name: other, namespace: infra, port: 80}
    - {group: "", kind: Service, name: web}
    - {name: refused}
    - {name: taken}
status:
  parents:
    - {parentRef: {name: refused}, controllerName: x/y, conditions: [{type: Accepted, status: "False"}]}
    - {parentRef: {name: taken}, controllerName: x/y, conditions: [{type: Accepted, status: "False"}]}
    - {parentRef: {name: taken, namespace: n}, controllerName: x/z, conditions: [{type: Accepted, status: "True"}]}
)"),
                              kAllKinds));
  EXPECT_EQ(route.kind, Kind::GrpcRoute);
  EXPECT_EQ(route.hostnames, std::vector<std::string>{"a.example.org"});
  EXPECT_EQ(route.parents,
            (std::vector<GatewayRef>{
                {"n", "own", "s", 0}, {"infra", "other", "", 80}, {"n", "taken", "", 0}}));
}

TEST(GatewayKindsTest, ReadAnIngress) {
  const auto ingress = only<Ingress>(read(R"(apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, annotations: {kubernetes.io/ingress.class: old}}
spec: {tls: [{hosts: [no.example.org]}], rules: [{host: "*.Example.org"}, {http: {}}, {host: b.example.org}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}, {hostname: LB.example.net}]}}
)",
                                          kAllKinds));
  EXPECT_EQ(ingress.class_name, "old");
  EXPECT_EQ(ingress.hosts, (std::vector<std::string>{"*.example.org", "b.example.org"}));
  EXPECT_EQ(ingress.addresses, (std::vector<std::string>{"192.0.2.1", "lb.example.net"}));
}

TEST(GatewayKindsTest, ReadTheAnnotationsOfExternalDns) {
  const std::string service = R"(apiVersion: v1
kind: Service
metadata:
  name: s
  annotations:
    external-dns.alpha.kubernetes.io/hostname: "A.example.org., *.b.example.org,, bad_name"
    external-dns.alpha.kubernetes.io/internal-hostname: c.example.org
    external-dns.alpha.kubernetes.io/target: "192.0.2.1, LB.example.net"
    external-dns.alpha.kubernetes.io/ttl: "1h1m1s"
spec: {clusterIP: 10.96.0.1}
)";
  EXPECT_FALSE(only<KubeService>(read(service)).dns);
  const Collected collected = read(service, kAllKinds);
  EXPECT_EQ(collected.places(),
            std::vector<std::string>{
                "6 warning metadata.annotations.external-dns.alpha.kubernetes.io/hostname"});
  const auto read_service = only<KubeService>(collected);
  ASSERT_TRUE(read_service.dns);
  EXPECT_EQ(read_service.dns->hostnames,
            (std::vector<std::string>{"a.example.org", "*.b.example.org", "c.example.org"}));
  EXPECT_EQ(read_service.dns->targets, (std::vector<std::string>{"192.0.2.1", "lb.example.net"}));
  EXPECT_EQ(read_service.dns->ttl, 3'661U);
}

TEST(GatewayKindsTest, ReadTimesToLive) {
  const auto ttl_of = [](const std::string& text) {
    const Collected collected = read(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, annotations: "
        "{external-dns.alpha.kubernetes.io/ttl: \"" +
            text + "\"}}\n",
        kAllKinds);
    return std::pair(only<Ingress>(collected).dns.ttl, collected.findings.size());
  };
  EXPECT_EQ(ttl_of("60"), std::pair(60U, std::size_t{0}));
  EXPECT_EQ(ttl_of("2m"), std::pair(120U, std::size_t{0}));
  EXPECT_EQ(ttl_of("99999999999999999999"), std::pair(86'400U, std::size_t{0}));
  for (const char* const text : {"0", "1x", "m", "1m3", "-1", "1.5s"})
    EXPECT_EQ(ttl_of(text), std::pair(0U, std::size_t{1})) << text;
}

}  // namespace
}  // namespace meshdns::registry
