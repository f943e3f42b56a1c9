// SPDX-License-Identifier: Apache-2.0
// The fields of the abstract service model, and the changes that the registry tells of.
#include "registry/service_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

class ServiceModelTest : public testing::Test {
 protected:
  std::vector<const ServiceRecord*> records(const std::string& host) {
    std::vector<const ServiceRecord*> list;
    const HostEntry* entry = registry_.registry().current()->find_host(host);
    if (entry == nullptr) return list;
    for (const ServiceRecord* record : entry->records())
      for (const ServiceRecord* service : services_of(*record)) list.push_back(service);
    return list;
  }
  MeshService service(const std::string& host) {
    return mesh_service(registry_.registry(), host, *records(host).at(0));
  }
  std::vector<ServiceInstance> instances(const std::string& host) {
    return instances_of(registry_.registry(), *records(host).at(0));
  }

  TestRegistry registry_;
};

constexpr std::string_view kPod = R"(
Pod shop/db-0 {labels: {app: db}}
spec: {serviceAccountName: storage, nodeName: node-1}
status: {phase: Running, podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
)";
constexpr std::string_view kHeadless = R"(
Service shop/db
spec: {clusterIP: None, ports: [{name: pg, port: 5432}, {name: metrics, port: 9187}]}
EndpointSlice shop/db-1 {labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints:
- addresses: [10.1.0.1]
  zone: zone-a
  nodeName: node-1
  targetRef: {kind: Pod, name: db-0, namespace: shop}
- addresses: [10.1.0.2]
  conditions: {ready: false}
ports: [{name: pg, port: 15432}, {name: metrics, port: 9187}]
)";

TEST_F(ServiceModelTest, AKubernetesServiceHasItsFields) {
  registry_.load(R"(
Service shop/web {creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "2001:db8::1"]
  ports: [{name: http, port: 80, targetPort: 8080}]
)");
  const MeshService web = service("web.shop.svc.cluster.local");
  EXPECT_EQ(web.id.uid, "istio://shop/services/web");
  EXPECT_EQ(web.id.ns, "shop");
  EXPECT_EQ(web.address, "10.96.0.1");
  ASSERT_EQ(web.cluster_vips.size(), 1U);
  EXPECT_EQ(web.cluster_vips[0].second.size(), 2U);
  EXPECT_EQ(to_string(web.resolution), "ClientSideLB");
  EXPECT_FALSE(web.mesh_external);
  EXPECT_EQ(web.creation_time, 1704067200);
  EXPECT_EQ(web.export_to, std::vector<std::string>{"*"});
  EXPECT_EQ(web.ports.at(0).target_port, 8080);
}

TEST_F(ServiceModelTest, EachKindOfServiceHasItsResolution) {
  registry_.load(R"(
Service shop/out
spec: {type: ExternalName, externalName: www.example.org}
ServiceEntry shop/none
spec: {hosts: [none.example.org], addresses: [10.9.0.0/16], ports: [{number: 80, name: http, protocol: HTTP}], resolution: NONE}
ServiceEntry shop/static
spec: {hosts: [static.example.org], location: MESH_INTERNAL, ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.9.0.1}]}
ServiceEntry shop/dns
spec: {hosts: [dns.example.org], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
ServiceEntry shop/rr
spec: {hosts: [rr.example.org], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS_ROUND_ROBIN}
)");
  registry_.load(kHeadless);
  const std::map<std::string, std::string> wanted{
      {"out.shop.svc.cluster.local", "Alias"}, {"none.example.org", "Passthrough"},
      {"static.example.org", "ClientSideLB"},  {"dns.example.org", "DNSLB"},
      {"rr.example.org", "DNSRoundRobinLB"},   {"db.shop.svc.cluster.local", "Passthrough"}};
  for (const auto& [host, resolution] : wanted)
    EXPECT_EQ(to_string(service(host).resolution), resolution) << host;
  EXPECT_TRUE(service("out.shop.svc.cluster.local").mesh_external);
  EXPECT_TRUE(service("dns.example.org").mesh_external);
  EXPECT_FALSE(service("static.example.org").mesh_external);
  EXPECT_EQ(service("none.example.org").address, "10.9.0.0/16");
  EXPECT_EQ(service("db.shop.svc.cluster.local").address, "0.0.0.0");
}

TEST_F(ServiceModelTest, AnEndpointWithTwoPortsIsTwoInstances) {
  registry_.load(kHeadless);
  registry_.load(kPod);
  const auto list = instances("db.shop.svc.cluster.local");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].address, "10.1.0.1");
  EXPECT_EQ(list[0].port, 15432);
  EXPECT_EQ(list[0].service_port_name, "pg");
  EXPECT_EQ(list[1].service_port_name, "metrics");
  EXPECT_EQ(list[0].uid, "kubernetes://db-0.shop");
  EXPECT_EQ(list[0].service_account, "storage");
  EXPECT_EQ(list[0].labels, (Labels{{"app", "db"}}));
  EXPECT_EQ(list[0].locality, "/zone-a");
  EXPECT_TRUE(list[0].ready);
  EXPECT_FALSE(list[2].ready);
  EXPECT_EQ(list[2].uid, "");
  EXPECT_EQ(service("db.shop.svc.cluster.local").service_accounts,
            std::vector<std::string>{"storage"});
}

TEST_F(ServiceModelTest, WorkloadsGiveTheirAttributes) {
  registry_.load(R"(
ServiceEntry shop/vm
spec:
  hosts: [vm.example.org]
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  workloadSelector: {labels: {app: vm}}
WorkloadEntry shop/vm-1
spec:
  address: 10.2.0.1
  labels: {app: vm}
  locality: region/zone/sub
  network: net-1
  serviceAccount: vms
  weight: 7
)");
  const auto list = instances("vm.example.org");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].uid, "istio://shop/workloads/vm-1");
  EXPECT_EQ(list[0].locality, "region/zone/sub");
  EXPECT_EQ(list[0].network, "net-1");
  EXPECT_EQ(list[0].service_account, "vms");
  EXPECT_EQ(list[0].weight, 7U);
  EXPECT_EQ(list[0].port, 8080);
}

TEST_F(ServiceModelTest, EqualAddressesKeepTheirOwnAttributes) {
  registry_.load(R"(
ServiceEntry shop/two
spec:
  hosts: [two.example.org]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - {address: 10.2.0.1, ports: {http: 8001}, labels: {version: v1}}
  - {address: 10.2.0.1, ports: {http: 8002}, labels: {version: v2}}
)");
  const auto list = instances("two.example.org");
  ASSERT_EQ(list.size(), 2U);
  for (const auto& instance : list)
    EXPECT_EQ(instance.labels, (Labels{{"version", instance.port == 8001 ? "v1" : "v2"}}));
  EXPECT_NE(list[0].port, list[1].port);
}

TEST_F(ServiceModelTest, ResolvedNamesGiveTheirEndpointsAttributes) {
  registry_.load(R"(
ServiceEntry shop/dns
spec:
  hosts: [dns.example.org]
  ports: [{number: 443, name: tls, protocol: TLS}]
  resolution: DNS
  endpoints: [{address: one.example.net, locality: far}, {address: two.example.net, locality: near}]
)");
  registry_.resolve("one.example.net", {"192.0.2.1"});
  registry_.resolve("two.example.net", {"192.0.2.2"});
  const auto list = instances("dns.example.org");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].locality, "far");
  EXPECT_EQ(list[1].locality, "near");
}

TEST_F(ServiceModelTest, UnixSocketsAreListed) {
  registry_.load(R"(
ServiceEntry shop/sock
spec:
  hosts: [sock.example.org]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: "unix:///run/app.sock", labels: {app: sock}}]
)");
  const auto list = instances("sock.example.org");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(to_string(list[0].family), "Unix");
  EXPECT_EQ(list[0].address, "/run/app.sock");
  EXPECT_EQ(list[0].port, 0);
  EXPECT_EQ(list[0].service_port_name, "http");
}

TEST_F(ServiceModelTest, ADecoratingEntryAddsItsSubjectAltNames) {
  registry_.load(R"(
Service shop/web
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
ServiceEntry shop/web-sans
spec:
  hosts: [web.shop.svc.cluster.local]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  subjectAltNames: [spiffe://example.org/web]
)");
  EXPECT_EQ(service("web.shop.svc.cluster.local").subject_alt_names,
            std::vector<std::string>{"spiffe://example.org/web"});
}

// --- changes -------------------------------------------------------------------------------------

class RecordChangeTest : public testing::Test {
 protected:
  RecordChangeTest() {
    handler_ =
        registry_.registry().controller().attach([&](const Changes& changes, const Snapshot&) {
          for (const auto& change : changes.records)
            told_.push_back((change.before ? (change.after ? "~" : "-") : "+") + change.host);
        });
  }
  std::vector<std::string> take() { return std::exchange(told_, {}); }

  TestRegistry registry_;
  std::shared_ptr<const Controller::Handler> handler_;
  std::vector<std::string> told_;
};

TEST_F(RecordChangeTest, APodIsAChangeOfTheServicesThatItServes) {
  registry_.load(kHeadless);
  take();
  registry_.load(kPod);
  EXPECT_EQ(take(), std::vector<std::string>{"~db.shop.svc.cluster.local"});
}

TEST_F(RecordChangeTest, EndpointsAreAChange) {
  registry_.load(kHeadless);
  EXPECT_EQ(take(), std::vector<std::string>{"+db.shop.svc.cluster.local"});
  registry_.remove({Kind::EndpointSlice, "", "shop", "db-1"});
  EXPECT_EQ(take(), std::vector<std::string>{"~db.shop.svc.cluster.local"});
  registry_.remove({Kind::Service, "", "shop", "db"});
  EXPECT_EQ(take(), std::vector<std::string>{"-db.shop.svc.cluster.local"});
}

TEST_F(RecordChangeTest, ChangedSettingsKeepAndRemoveHosts) {
  registry_.load(kHeadless);
  registry_.load(R"(
Service office/other
spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 80}]}
)");
  take();
  MeshSettings settings;
  settings.namespaces = {"shop"};
  registry_.registry().set_settings(settings);
  auto told = take();
  std::ranges::sort(told);
  EXPECT_EQ(told, (std::vector<std::string>{"-other.office.svc.cluster.local",
                                            "~db.shop.svc.cluster.local"}));
}

}  // namespace
}  // namespace meshdns::registry
