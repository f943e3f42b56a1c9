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
Namespace /shop
Service shop/web
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
  EXPECT_EQ(ask("cluster.local. ANY"), ask("cluster.local. SOA"));
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

// The server's addresses of the family that is asked for, in each zone that is answered here.
TEST_F(KubernetesTest, NameServersHaveTheAddressesOfTheirFamily) {
  registry::MeshSettings settings;
  settings.reverse_zones = {"96.10.in-addr.arpa", "0.0.d.f.ip6.arpa"};
  settings.cluster_set_authoritative = true;
  configure(settings);
  for (const bool has_v4 : {false, true})
    for (const bool has_v6 : {false, true}) {
      settings_.server_addresses.clear();
      if (has_v4) settings_.server_addresses.push_back(*IpAddress::parse("192.0.2.7"));
      if (has_v6) settings_.server_addresses.push_back(*IpAddress::parse("2001:db8::7"));
      handler().reconfigure(settings_);
      for (const std::string zone :
           {"cluster.local.", "clusterset.local.", "96.10.in-addr.arpa.", "0.0.d.f.ip6.arpa."}) {
        const std::string server = "ns.dns." + zone;
        const std::string none = "NODATA " + zone;
        EXPECT_EQ(ask(server + " A"), has_v4 ? server + " 5 A 192.0.2.7" : none);
        EXPECT_EQ(ask(server + " AAAA"), has_v6 ? server + " 5 AAAA 2001:db8::7" : none);
        EXPECT_EQ(ask(server + " TXT"), none);
        EXPECT_EQ(ask("dns." + zone + " A"), none);
        EXPECT_EQ(ask("x." + server + " A"), "NXDOMAIN " + zone);
      }
    }
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
  registry_.registry().set_sources({.authoritative = true, .synced = false});
  expect_all("not aa, SERVFAIL, EDE 14",
             {"web.shop.svc.cluster.local. A", "missing.shop.svc.cluster.local. A",
              "shop.svc.cluster.local. A", "1.0.96.10.in-addr.arpa. PTR"});
  expect({{"dns-version.cluster.local. TXT", "dns-version.cluster.local. 28800 TXT \"1.1.0\""},
          {"svc.cluster.local. A", "NODATA cluster.local."},
          {"cluster.local. A", "NODATA cluster.local."},
          {"96.10.in-addr.arpa. TXT", "NODATA 96.10.in-addr.arpa."},
          {"clusterset.local. A", "FORWARD"},
          {"web.shop.svc.clusterset.local. A", "FORWARD"},
          {"www.example.org. A", "FORWARD"}});
  settings.cluster_set_authoritative = true;
  configure(settings);
  EXPECT_EQ(ask("clusterset.local. A"), "NODATA clusterset.local.");
  EXPECT_EQ(ask("svc.clusterset.local. A"), "NODATA clusterset.local.");
  EXPECT_EQ(ask("web.shop.svc.clusterset.local. A"), "not aa, SERVFAIL, EDE 14");
}

TEST_F(KubernetesTest, EndpointsThatMayNotBeReadAreNotDenied) {
  load("Service shop/bare\nspec: { clusterIP: None, ports: [{ port: 80 }] }\n");
  expect({{"bare.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."},
          {"bare-0.bare.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."}});
  registry_.registry().set_sources({.authoritative = true, .endpoints_unknown = true});
  expect_all("not aa, SERVFAIL, EDE 14",
             {"bare.shop.svc.cluster.local. A", "bare-0.bare.shop.svc.cluster.local. A"});
  expect({{"missing.shop.svc.cluster.local. A", "NXDOMAIN cluster.local."},
          {"_none._tcp.web.shop.svc.cluster.local. SRV", "NXDOMAIN cluster.local."},
          {"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. 5 A 10.96.0.1"}});
  // A Service with a cluster IP, where that needs a ready endpoint.
  registry::MeshSettings settings;
  settings.ignore_empty_service = true;
  configure(settings);
  expect_all("not aa, SERVFAIL, EDE 14",
             {"web.shop.svc.cluster.local. A", "_http._tcp.web.shop.svc.cluster.local. SRV"});
  registry_.registry().set_sources({.authoritative = true});
  expect_all("NXDOMAIN cluster.local.",
             {"web.shop.svc.cluster.local. A", "_http._tcp.web.shop.svc.cluster.local. SRV"});
}

// The Services "db", headless, and "both" of two clusters, which are networks, too.
std::vector<registry::Resource> services_of_two_clusters() {
  std::vector<registry::Resource> all;
  for (const std::string cluster : {"east", "west"}) {
    const bool is_east = cluster == "east";
    auto resources = registry::parse(std::string(R"(
Service shop/both
spec: { clusterIP: ")") + (is_east ? "10.96.0.9" : "fd00:96::1") +
                                     R"(", ports: [{ port: 80, name: http }] }
Service shop/db
spec: { clusterIP: None, ports: [{ port: 80, name: http }] }
EndpointSlice shop/db-1 {labels: { kubernetes.io/service-name: db }}
addressType: IPv4
ports: [{ name: http, port: 80, protocol: TCP }]
endpoints: [{ addresses: [)" + (is_east ? "10.1.0.1" : "10.2.0.1") +
                                     "], hostname: db-0 }]\n");
    for (registry::Resource& resource : resources) {
      registry::meta_of(resource).cluster = cluster;
      registry::meta_of(resource).network = cluster;
      all.push_back(std::move(resource));
    }
  }
  return all;
}

// Only the cluster set has names of clusters, and only a client of another network is told of it.
TEST_F(KubernetesTest, ServicesOfTwoClustersHaveNeitherNamesNorNetworksOfClusters) {
  registry_.add(services_of_two_clusters());
  for (const char* const network : {"", "east"})
    for (const char* const cluster : {"", "east"}) {
      registry::ClientIdentity identity;
      identity.network = network;
      identity.cluster = cluster;
      registry_.be(identity);
      expect_all("NXDOMAIN cluster.local.",
                 {"east.db.shop.svc.cluster.local. A", "west.db.shop.svc.cluster.local. A",
                  "db-0.east.db.shop.svc.cluster.local. A"});
      if (*cluster == '\0') continue;
      expect({{"both.shop.svc.cluster.local. A", "both.shop.svc.cluster.local. 5 A 10.96.0.9"},
              {"both.shop.svc.cluster.local. AAAA", "NODATA cluster.local."}});
      EXPECT_TRUE(message_.extended_errors.empty()) << "no network is the reason";
    }
}

TEST_F(KubernetesTest, StateOfAnEarlierRunSaysSo) {
  registry_.registry().set_sources({.authoritative = true, .from_state_dir = true});
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
Service shop/db
spec: { clusterIP: None, ports: [{ port: 80, name: http, protocol: TCP }] }
EndpointSlice shop/db-1 {labels: { kubernetes.io/service-name: db }}
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
