// SPDX-License-Identifier: Apache-2.0
// Names of the cluster domain that depend on the server's own addresses and on the state of the
// sources; tests/scenarios/kubernetes has all others (docs/semantics-kubernetes.md).
#include <set>
#include <string>
#include <vector>

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
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{ port: 80, name: http, protocol: TCP }] }
)");
  }
  void expect(std::initializer_list<Row> rows) {
    for (const Row& row : rows) EXPECT_EQ(ask(row.question), row.answer) << row.question;
  }
  void expect_all(const char* answer, std::initializer_list<const char*> questions) {
    for (const char* question : questions) EXPECT_EQ(ask(question), answer) << question;
  }
};

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

// The targets of SRV records and the names of PTR records resolve (specification, 2.4).
TEST_F(KubernetesTest, NameOfAnEndpointLeadsToItsAddressHoweverThatIsWritten) {
  const std::vector<std::string> addresses = {"::1",        "::1:2",        "::a00:1",
                                              "::1:0:2",    "2001:db8::",   "2001:db8::1:2",
                                              "64:ff9b::1", "::fffe:1:2:3", "::7f00:0"};
  std::string endpoints;
  for (const auto& address : addresses) endpoints += "  - { addresses: [\"" + address + "\"] }\n";
  load(R"(
apiVersion: v1
kind: Service
metadata: { name: db, namespace: shop }
spec: { clusterIP: None, ports: [{ port: 80, name: http, protocol: TCP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: db-1, namespace: shop, labels: { kubernetes.io/service-name: db } }
addressType: IPv6
ports: [{ port: 80, name: http, protocol: TCP }]
endpoints:
)" + endpoints);
  ask("_http._tcp.db.shop.svc.cluster.local. SRV", {.tcp = true});
  std::vector<std::string> targets;
  for (const auto& record : message_.answer) {
    const std::string text = wire::record_to_text(record);
    targets.push_back(text.substr(text.rfind(' ') + 1));
  }
  ASSERT_EQ(targets.size(), addresses.size());
  std::set<std::string> found;
  for (const auto& target : targets) {
    ask(target + " AAAA");
    ASSERT_EQ(message_.answer.size(), 1U) << target;
    const std::string text = wire::record_to_text(message_.answer[0]);
    found.insert(IpAddress::parse(text.substr(text.rfind(' ') + 1))->to_string());
  }
  std::set<std::string> expected;
  for (const auto& address : addresses) expected.insert(IpAddress::parse(address)->to_string());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace meshdns::dnsd
