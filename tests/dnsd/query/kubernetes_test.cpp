// SPDX-License-Identifier: Apache-2.0
// Names of the cluster domain (docs/semantics-kubernetes.md).
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class KubernetesTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    load(R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: v1
kind: Namespace
metadata: { name: empty }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ports: [{ port: 80, name: http, protocol: TCP }, { port: 443, name: https, protocol: TCP }, { port: 53, name: dns, protocol: UDP }]
---
apiVersion: v1
kind: Service
metadata: { name: dual, namespace: shop }
spec: { clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2, "fd00:96::2"], ports: [{ port: 80, name: http, protocol: TCP }] }
---
apiVersion: v1
kind: Service
metadata: { name: unnamed, namespace: shop }
spec: { clusterIP: 10.96.0.4, clusterIPs: [10.96.0.4], ports: [{ port: 8443, protocol: TCP }] }
---
apiVersion: v1
kind: Service
metadata: { name: new, namespace: shop }
spec: { ports: [{ port: 80, name: http }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080, name: http, protocol: TCP }]
endpoints:
  - { addresses: [10.4.0.1], hostname: first, conditions: { ready: true } }
  - { addresses: [10.4.0.2], conditions: { ready: true } }
  - { addresses: [10.4.0.3], hostname: third, conditions: { ready: false } }
---
apiVersion: v1
kind: Service
metadata: { name: db, namespace: shop }
spec: { clusterIP: None, ports: [{ port: 5432, name: pg, protocol: TCP, targetPort: 15432 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: db-1, namespace: shop, labels: { kubernetes.io/service-name: db } }
addressType: IPv4
ports: [{ port: 15432, name: pg, protocol: TCP }]
endpoints:
  - { addresses: [10.5.0.1], hostname: db-0, conditions: { ready: true } }
  - { addresses: [10.5.0.2], conditions: {} }
  - { addresses: [10.5.0.3], hostname: db-2, conditions: { ready: false } }
  - { addresses: [10.5.0.5], hostname: db-0, conditions: { ready: true } }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: db-6, namespace: shop, labels: { kubernetes.io/service-name: db } }
addressType: IPv6
ports: [{ port: 15432, name: pg, protocol: TCP }]
endpoints: [{ addresses: ["fd00:5::"], conditions: { ready: true } }]
---
apiVersion: v1
kind: Service
metadata: { name: unready, namespace: shop }
spec: { clusterIP: None, ports: [{ port: 80, name: http }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: unready-1, namespace: shop, labels: { kubernetes.io/service-name: unready } }
addressType: IPv4
ports: [{ port: 80, name: http }]
endpoints: [{ addresses: [10.6.0.1], hostname: u-0, conditions: { ready: false } }]
---
apiVersion: v1
kind: Service
metadata: { name: portless, namespace: shop }
spec: { clusterIP: None }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: portless-1, namespace: shop, labels: { kubernetes.io/service-name: portless } }
addressType: IPv4
endpoints: [{ addresses: [10.7.0.1] }]
)");
  }
  void expect(std::initializer_list<Row> rows) {
    for (const Row& row : rows) EXPECT_EQ(ask(row.question), row.answer) << row.question;
  }
  void expect_all(const char* answer, std::initializer_list<const char*> questions) {
    for (const char* question : questions) EXPECT_EQ(ask(question), answer) << question;
  }
};

TEST_F(KubernetesTest, NamesAboveServicesExistAndAreEmpty) {
  expect_all("NODATA cluster.local.",
             {"cluster.local. A", "cluster.local. AAAA", "cluster.local. SRV", "cluster.local. TXT",
              "cluster.local. HTTPS", "svc.cluster.local. A", "svc.cluster.local. SOA",
              "pod.cluster.local. TXT", "dns.cluster.local. A", "shop.svc.cluster.local. TXT",
              "empty.svc.cluster.local. A", "shop.pod.cluster.local. A"});
  expect_all("NXDOMAIN cluster.local.",
             {"nothing.cluster.local. A", "shop.cluster.local. A", "missing.svc.cluster.local. TXT",
              "web.missing.svc.cluster.local. A", "missing.shop.svc.cluster.local. SOA",
              "missing.shop.svc.cluster.local. TYPE65280", "x.empty.svc.cluster.local. A",
              "a.b.c.web.shop.svc.cluster.local. A", "a.b.c.d.web.shop.svc.cluster.local. A"});
  // what only ends alike is not of the zone
  expect_all("FORWARD", {"xcluster.local. A", "local. A", ". NS"});
}

TEST_F(KubernetesTest, ApexSaysWhoServesTheZone) {
  settings_.server_addresses = {*IpAddress::parse("192.0.2.7"), *IpAddress::parse("2001:db8::7")};
  EXPECT_THAT(
      ask("cluster.local. SOA"),
      testing::MatchesRegex("cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. "
                            "[0-9]+ 7200 1800 86400 5"));
  expect({{"cluster.local. NS",
           "cluster.local. 5 NS ns.dns.cluster.local., + ns.dns.cluster.local. 5 A 192.0.2.7, "
           "+ ns.dns.cluster.local. 5 AAAA 2001:db8::7"},
          {"CLUSTER.Local. NS",
           "CLUSTER.Local. 5 NS ns.dns.CLUSTER.Local., + ns.dns.CLUSTER.Local. 5 A 192.0.2.7, "
           "+ ns.dns.CLUSTER.Local. 5 AAAA 2001:db8::7"},
          {"ns.dns.cluster.local. A", "ns.dns.cluster.local. 5 A 192.0.2.7"},
          {"ns.dns.cluster.local. AAAA", "ns.dns.cluster.local. 5 AAAA 2001:db8::7"},
          {"ns.dns.cluster.local. TXT", "NODATA cluster.local."},
          {"dns-version.cluster.local. TXT", "dns-version.cluster.local. 28800 TXT \"1.1.0\""},
          {"dns-version.cluster.local. A", "NODATA cluster.local."}});
}

TEST_F(KubernetesTest, NameServerOfAWildcardListenerIsTheAddressThatWasAsked) {
  EXPECT_EQ(ask("ns.dns.cluster.local. A", {.local = "169.254.20.10"}),
            "ns.dns.cluster.local. 5 A 169.254.20.10");
  EXPECT_EQ(ask("ns.dns.cluster.local. A", {.local = "127.0.0.1"}), "NODATA cluster.local.");
}

TEST_F(KubernetesTest, NegativeAnswersCarryTheZonesSoaSpelledAsAsked) {
  EXPECT_EQ(ask("Missing.shop.svc.Cluster.LOCAL. A"), "NXDOMAIN Cluster.LOCAL.");
  ASSERT_EQ(message_.authority.size(), 1U);
  EXPECT_THAT(wire::record_to_text(message_.authority[0]),
              testing::MatchesRegex("Cluster.LOCAL..5.IN.SOA.ns.dns.Cluster.LOCAL. "
                                    "hostmaster.Cluster.LOCAL. [0-9]+ 7200 1800 86400 5"));
}

TEST_F(KubernetesTest, ServiceWithClusterIps) {
  expect({{"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"WEB.Shop.svc.cluster.local. A", "WEB.Shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"dual.shop.svc.cluster.local. AAAA", "dual.shop.svc.cluster.local. 5 AAAA fd00:96::2"},
          {"unnamed.shop.svc.cluster.local. A", "unnamed.shop.svc.cluster.local. 5 A 10.96.0.4"},
          {"new.shop.svc.cluster.local. A", "NODATA cluster.local."},
          {"web.shop.svc.cluster.local. ANY",
           "web.shop.svc.cluster.local. 8482 HINFO \"ANY obsoleted\" \"See RFC 8482\""}});
  expect_all("NODATA cluster.local.",
             {"web.shop.svc.cluster.local. AAAA", "web.shop.svc.cluster.local. TXT",
              "web.shop.svc.cluster.local. MX", "web.shop.svc.cluster.local. NS",
              "web.shop.svc.cluster.local. CNAME", "web.shop.svc.cluster.local. PTR",
              "web.shop.svc.cluster.local. SOA", "web.shop.svc.cluster.local. HTTPS",
              "web.shop.svc.cluster.local. SVCB", "web.shop.svc.cluster.local. CAA",
              "web.shop.svc.cluster.local. DS", "web.shop.svc.cluster.local. TYPE65280"});
}

TEST_F(KubernetesTest, PortsOfAServiceWithAClusterIp) {
  expect({{"_http._tcp.web.shop.svc.cluster.local. SRV",
           "_http._tcp.web.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local., "
           "+ web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"_dns._udp.web.shop.svc.cluster.local. SRV",
           "_dns._udp.web.shop.svc.cluster.local. 5 SRV 0 100 53 web.shop.svc.cluster.local., "
           "+ web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"_http._tcp.dual.shop.svc.cluster.local. SRV",
           "_http._tcp.dual.shop.svc.cluster.local. 5 SRV 0 100 80 dual.shop.svc.cluster.local., "
           "+ dual.shop.svc.cluster.local. 5 A 10.96.0.2, + dual.shop.svc.cluster.local. 5 AAAA "
           "fd00:96::2"},
          {"web.shop.svc.cluster.local. SRV",
           "web.shop.svc.cluster.local. 5 SRV 0 33 443 web.shop.svc.cluster.local., "
           "web.shop.svc.cluster.local. 5 SRV 0 33 53 web.shop.svc.cluster.local., "
           "web.shop.svc.cluster.local. 5 SRV 0 33 80 web.shop.svc.cluster.local., "
           "+ web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"unnamed.shop.svc.cluster.local. SRV",
           "unnamed.shop.svc.cluster.local. 5 SRV 0 100 8443 unnamed.shop.svc.cluster.local., "
           "+ unnamed.shop.svc.cluster.local. 5 A 10.96.0.4"}});
  expect_all("NXDOMAIN cluster.local.",
             {"_http._udp.web.shop.svc.cluster.local. SRV",
              "_missing._tcp.web.shop.svc.cluster.local. SRV",
              "_https._tcp.unnamed.shop.svc.cluster.local. SRV",
              "http.tcp.web.shop.svc.cluster.local. SRV", "_._tcp.web.shop.svc.cluster.local. SRV",
              "_http._.web.shop.svc.cluster.local. SRV", "_tcp.unnamed.shop.svc.cluster.local. A",
              "_sctp.web.shop.svc.cluster.local. A"});
  expect_all("NODATA cluster.local.",
             {"_http._tcp.web.shop.svc.cluster.local. A",
              "_http._tcp.web.shop.svc.cluster.local. TXT", "_tcp.web.shop.svc.cluster.local. A",
              "_tcp.web.shop.svc.cluster.local. SRV", "_udp.web.shop.svc.cluster.local. TXT"});
}

TEST_F(KubernetesTest, EndpointsOfAServiceWithAClusterIpHaveNames) {
  expect({{"first.web.shop.svc.cluster.local. A", "first.web.shop.svc.cluster.local. 5 A 10.4.0.1"},
          {"10-4-0-2.web.shop.svc.cluster.local. A",
           "10-4-0-2.web.shop.svc.cluster.local. 5 A 10.4.0.2"},
          {"first.web.shop.svc.cluster.local. SRV",
           "first.web.shop.svc.cluster.local. 5 SRV 0 100 8080 first.web.shop.svc.cluster.local., "
           "+ first.web.shop.svc.cluster.local. 5 A 10.4.0.1"},
          {"first.web.shop.svc.cluster.local. AAAA", "NODATA cluster.local."},
          {"third.web.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."},
          {"10-4-0-1.web.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."}});
}

TEST_F(KubernetesTest, HeadlessServiceIsItsReadyEndpoints) {
  expect(
      {{"db.shop.svc.cluster.local. A",
        "db.shop.svc.cluster.local. 5 A 10.5.0.1, db.shop.svc.cluster.local. 5 A 10.5.0.2, "
        "db.shop.svc.cluster.local. 5 A 10.5.0.5"},
       {"db.shop.svc.cluster.local. AAAA", "db.shop.svc.cluster.local. 5 AAAA fd00:5::"},
       {"db-0.db.shop.svc.cluster.local. A",
        "db-0.db.shop.svc.cluster.local. 5 A 10.5.0.1, db-0.db.shop.svc.cluster.local. 5 A "
        "10.5.0.5"},
       {"10-5-0-2.db.shop.svc.cluster.local. A",
        "10-5-0-2.db.shop.svc.cluster.local. 5 A 10.5.0.2"},
       {"fd00-5--0.db.shop.svc.cluster.local. AAAA",
        "fd00-5--0.db.shop.svc.cluster.local. 5 AAAA fd00:5::"},
       {"_pg._tcp.db.shop.svc.cluster.local. SRV",
        "_pg._tcp.db.shop.svc.cluster.local. 5 SRV 0 33 15432 10-5-0-2.db.shop.svc.cluster.local., "
        "_pg._tcp.db.shop.svc.cluster.local. 5 SRV 0 33 15432 db-0.db.shop.svc.cluster.local., "
        "_pg._tcp.db.shop.svc.cluster.local. 5 SRV 0 33 15432 "
        "fd00-5--0.db.shop.svc.cluster.local., "
        "+ 10-5-0-2.db.shop.svc.cluster.local. 5 A 10.5.0.2, "
        "+ db-0.db.shop.svc.cluster.local. 5 A 10.5.0.1, "
        "+ db-0.db.shop.svc.cluster.local. 5 A 10.5.0.5, "
        "+ fd00-5--0.db.shop.svc.cluster.local. 5 AAAA fd00:5::"}});
  expect_all("NODATA cluster.local.",
             {"db-0.db.shop.svc.cluster.local. AAAA", "db-0.db.shop.svc.cluster.local. TXT",
              "db.shop.svc.cluster.local. TXT", "_tcp.db.shop.svc.cluster.local. A",
              "_pg._tcp.db.shop.svc.cluster.local. A", "portless.shop.svc.cluster.local. SRV"});
  expect_all("NXDOMAIN cluster.local.",
             {"db-2.db.shop.svc.cluster.local. A", "10-5-0-1.db.shop.svc.cluster.local. A",
              "10-5-0-3.db.shop.svc.cluster.local. A", "missing.db.shop.svc.cluster.local. A",
              // one name per endpoint: not every spelling of its address
              "fd00-5-0-0-0-0-0-0.db.shop.svc.cluster.local. AAAA",
              "_missing._tcp.db.shop.svc.cluster.local. SRV", "_udp.db.shop.svc.cluster.local. A"});
}

TEST_F(KubernetesTest, GlueHasEachTargetsAddresses) {
  ask("_pg._tcp.db.shop.svc.cluster.local. SRV");
  std::vector<std::string> glue;
  for (const auto& record : message_.additional) glue.push_back(wire::record_to_text(record));
  EXPECT_EQ(glue.size(), 4U);
  EXPECT_EQ(
      std::ranges::count_if(glue, [](const std::string& g) { return g.starts_with("db-0."); }), 2);
}

TEST_F(KubernetesTest, HeadlessServiceWithoutReadyEndpointsIsANameErrorAndSaysWhy) {
  for (const char* question :
       {"unready.shop.svc.cluster.local. A", "unready.shop.svc.cluster.local. AAAA",
        "unready.shop.svc.cluster.local. TXT", "unready.shop.svc.cluster.local. SRV",
        "_http._tcp.unready.shop.svc.cluster.local. SRV",
        "u-0.unready.shop.svc.cluster.local. A"}) {
    EXPECT_EQ(ask(question), "NXDOMAIN cluster.local.") << question;
    ASSERT_EQ(message_.extended_errors.size(), 1U) << question;
  }
  registry_.registry().set_state(false, true, false);
  EXPECT_EQ(ask("unready.shop.svc.cluster.local. A"), "FORWARD");
}

TEST_F(KubernetesTest, PodNamesSpellTheirAddress) {
  expect({{"10-4-0-1.shop.pod.cluster.local. A", "10-4-0-1.shop.pod.cluster.local. 5 A 10.4.0.1"},
          {"fd00--4-1.shop.pod.cluster.local. AAAA",
           "fd00--4-1.shop.pod.cluster.local. 5 AAAA fd00::4:1"}});
  expect_all("NODATA cluster.local.",
             {"10-4-0-1.shop.pod.cluster.local. AAAA", "10-4-0-1.shop.pod.cluster.local. TXT",
              "10-4-0-1.shop.pod.cluster.local. SRV"});
  expect_all("NXDOMAIN cluster.local.",
             {"blah.shop.pod.cluster.local. A", "10-4-0.shop.pod.cluster.local. A",
              "10-4-0-256.shop.pod.cluster.local. A", "10-4-0-01.shop.pod.cluster.local. A",
              "x.10-4-0-1.shop.pod.cluster.local. A", "10-4-0-1.missing.pod.cluster.local. A",
              "--ffff-a04-1.shop.pod.cluster.local. AAAA", "missing.pod.cluster.local. A"});
}

TEST_F(KubernetesTest, PodNamesCanBeDisabledOrVerified) {
  registry::MeshSettings settings;
  settings.pods = registry::PodNames::Disabled;
  configure(settings);
  expect_all("NXDOMAIN cluster.local.",
             {"10-4-0-1.shop.pod.cluster.local. A", "shop.pod.cluster.local. A"});
  settings.pods = registry::PodNames::Verified;
  configure(settings);
  load(R"(
apiVersion: v1
kind: Pod
metadata: { name: a, namespace: shop }
status: { phase: Running, podIP: 10.4.0.1, podIPs: [{ ip: 10.4.0.1 }, { ip: "fd00:4:0:0::1" }] }
)");
  expect({{"10-4-0-1.shop.pod.cluster.local. A", "10-4-0-1.shop.pod.cluster.local. 5 A 10.4.0.1"},
          {"fd00-4--1.shop.pod.cluster.local. AAAA",
           "fd00-4--1.shop.pod.cluster.local. 5 AAAA fd00:4::1"},
          {"10-4-0-9.shop.pod.cluster.local. A", "NXDOMAIN cluster.local."},
          {"10-4-0-1.empty.pod.cluster.local. A", "NXDOMAIN cluster.local."}});
}

TEST_F(KubernetesTest, ShortNamesAnswerAddressesOnly) {
  be_in("shop");
  expect({{"web. A", "web. 5 A 10.96.0.1"},
          {"web.shop. A", "web.shop. 5 A 10.96.0.1"},
          {"web.shop.svc. A", "web.shop.svc. 5 A 10.96.0.1"},
          {"web. AAAA", "NODATA web."},
          {"web. MX", "FORWARD"},
          {"web. HTTPS", "NODATA web."},
          {"missing. A", "FORWARD"},
          {"web.shop.svc.cluster. A", "FORWARD"}});
}

TEST_F(KubernetesTest, ElsewhereUnknownClusterNamesAreForwardedAndKnownOnesAnswered) {
  registry_.registry().set_state(false, true, false);
  expect({{"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"web.shop.svc.cluster.local. AAAA", "NODATA cluster.local."},
          {"web.shop.svc.cluster.local. TXT", "NODATA cluster.local."},
          {"missing.shop.svc.cluster.local. A", "FORWARD"},
          {"cluster.local. SOA", "FORWARD"},
          {"shop.svc.cluster.local. A", "FORWARD"}});
}

TEST_F(KubernetesTest, FallthroughForwardsNameErrorsAndNothingElse) {
  registry::MeshSettings settings;
  settings.fallthrough = {"cluster.local"};
  configure(settings);
  expect({{"missing.shop.svc.cluster.local. A", "FORWARD"},
          {"unready.shop.svc.cluster.local. A", "FORWARD"},
          {"web.shop.svc.cluster.local. AAAA", "NODATA cluster.local."},
          {"svc.cluster.local. A", "NODATA cluster.local."}});
}

TEST_F(KubernetesTest, BeforeTheFirstSyncMissingNamesMayOnlyBeLate) {
  registry::MeshSettings settings;
  settings.reverse_zones = {"96.10.in-addr.arpa"};
  configure(settings);
  registry_.registry().set_state(true, false, false);
  expect_all("not aa, SERVFAIL, EDE 14",
             {"web.shop.svc.cluster.local. A", "missing.shop.svc.cluster.local. A",
              "shop.svc.cluster.local. A", "1.0.96.10.in-addr.arpa. PTR"});
  expect({{"dns-version.cluster.local. TXT", "dns-version.cluster.local. 28800 TXT \"1.1.0\""},
          {"svc.cluster.local. A", "NODATA cluster.local."},
          {"www.example.org. A", "FORWARD"}});
}

TEST_F(KubernetesTest, EndpointsThatMayNotBeReadAreNotDenied) {
  load(
      "apiVersion: v1\nkind: Service\nmetadata: { name: bare, namespace: shop }\n"
      "spec: { clusterIP: None, ports: [{ port: 80 }] }\n");
  expect({{"bare.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."},
          {"bare-0.bare.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."}});
  registry_.registry().set_endpoints_unknown(true);
  expect_all("not aa, SERVFAIL, EDE 14",
             {"bare.shop.svc.cluster.local. A", "bare-0.bare.shop.svc.cluster.local. A"});
  expect({{"missing.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."},
          {"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. 5 A 10.96.0.1"}});
}

TEST_F(KubernetesTest, StateOfAnEarlierRunSaysSo) {
  registry_.registry().set_state(true, true, true);
  EXPECT_EQ(ask("web.shop.svc.cluster.local. A"),
            "web.shop.svc.cluster.local. 5 A 10.96.0.1, EDE 3");
}

TEST_F(KubernetesTest, EmptyServiceCanBeIgnored) {
  registry::MeshSettings settings;
  settings.ignore_empty_service = true;
  configure(settings);
  expect({{"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. 5 A 10.96.0.1"},
          {"unnamed.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."}});
}

TEST_F(KubernetesTest, EndpointsCanBeNamedAfterPods) {
  registry::MeshSettings settings;
  settings.endpoint_pod_names = true;
  configure(settings);
  load(R"(
apiVersion: v1
kind: Service
metadata: { name: pods, namespace: shop }
spec: { clusterIP: None, ports: [{ port: 80, name: http }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: pods-1, namespace: shop, labels: { kubernetes.io/service-name: pods } }
addressType: IPv4
ports: [{ port: 80, name: http }]
endpoints: [{ addresses: [10.8.0.1], targetRef: { kind: Pod, name: pods-abc, namespace: shop } }]
)");
  expect({{"pods-abc.pods.shop.svc.cluster.local. A",
           "pods-abc.pods.shop.svc.cluster.local. 5 A 10.8.0.1"},
          {"10-8-0-1.pods.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."}});
}

TEST_F(KubernetesTest, ClusterSetNamesAreAnsweredBesideTheClustersOwn) {
  load(R"(
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: { name: web, namespace: shop }
spec: { type: ClusterSetIP, ips: [10.97.0.1], ports: [{ port: 80, name: http, protocol: TCP }] }
)");
  expect({{"web.shop.svc.clusterset.local. A", "web.shop.svc.clusterset.local. 5 A 10.97.0.1"},
          {"web.shop.svc.clusterset.local. AAAA", "NODATA clusterset.local."},
          {"web.shop.svc.clusterset.local. TXT", "NODATA clusterset.local."},
          {"missing.shop.svc.clusterset.local. A", "FORWARD"}});
}

}  // namespace
}  // namespace meshdns::dnsd
