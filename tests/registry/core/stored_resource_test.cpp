// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/stored_resource.hpp"

#include <random>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr std::string_view kManifests = R"(
ServiceEntry x/a {labels: {k: v}, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  hosts: [a.example.org]
  addresses: [10.0.0.1, "2001:db8::1", 10.1.0.0/16]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  exportTo: [".", other]
  endpoints: [{address: 2.2.2.2, ports: {http: 81}, labels: {a: b}, weight: 3, network: n, locality: r/z}]
WorkloadEntry x/w
spec: {address: 1.2.3.4, labels: {a: b}}
Sidecar x/s
spec: {egress: [{hosts: ["./*"], port: {number: 80, name: http, protocol: HTTP}}, {hosts: ["*/*"]}]}
Service x/s
spec: {clusterIPs: [10.0.0.9, "fd00::9"], ports: [{name: http, port: 80}]}
EndpointSlice x/s-1 {labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.2.0.1], hostname: h, conditions: {ready: false}}]
Pod x/p {labels: {app: p}}
spec: {dnsConfig: {searches: [example.net]}}
status: {podIPs: [{ip: 10.2.0.1}], phase: Running}
Namespace /x
Gateway x/g
spec:
  gatewayClassName: c
  listeners:
    - {name: l, port: 80, protocol: HTTP, hostname: "*.example.org", allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {a: b}}}}}
status: {addresses: [{value: 192.0.2.1}]}
GRPCRoute x/r {annotations: {external-dns.alpha.kubernetes.io/ttl: "60"}}
spec: {hostnames: [a.example.org], parentRefs: [{name: g, namespace: y, sectionName: l, port: 80}]}
Ingress x/i
spec: {ingressClassName: c, rules: [{host: a.example.org}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}
ConfigMap istio-system/istio
data:
  mesh: |
    rootNamespace: r
    defaultServiceExportTo: [".", a]
    serviceEntryVisibility:
      defaultVisibility: NAMESPACE
      policies:
      - visibility: NONE
        matchingRules:
        - namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: k, operator: In, values: [v]}]}
)";

TEST(StoredResourceTest, GivesBackWhatWasEncoded) {
  const auto resources = parse(kManifests);
  ASSERT_EQ(resources.size(), 11U);
  for (const auto& resource : resources) {
    const StoredRef stored = StoredResource::encode(resource, 1, 7);
    EXPECT_TRUE(stored->decode() == resource) << stored->label();
    EXPECT_EQ(stored->key(), key_of(resource));
    EXPECT_TRUE(stored->has_key(key_of(resource)));
    EXPECT_EQ(stored->key_hash(), hash_of(key_of(resource)));
    const auto again = StoredResource::from_encoded(stored->encoded(), 1, 7);
    ASSERT_TRUE(again);
    EXPECT_TRUE((*again)->decode() == resource);
  }
}

TEST(StoredResourceTest, RefusesEveryCutAndManyDamagedEncodings) {
  std::mt19937 random(1);
  for (const auto& resource : parse(kManifests)) {
    const std::string octets(StoredResource::encode(resource, 0, 0)->encoded());
    for (std::size_t n = 0; n < octets.size(); ++n)
      EXPECT_FALSE(StoredResource::from_encoded(octets.substr(0, n), 0, 0)) << n;
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = octets;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      if (const auto r = StoredResource::from_encoded(damaged, 0, 0))
        (*r)->decode();  // must not crash
    }
  }
}

}  // namespace
}  // namespace meshdns::registry
