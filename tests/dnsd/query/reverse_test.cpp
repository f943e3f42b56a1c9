// SPDX-License-Identifier: Apache-2.0
// Reverse names (docs/semantics-kubernetes.md, "Reverse names").
#include "dnsd/query/reverse_zone.hpp"
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class ReverseTest : public QueryFixture {
 protected:
  void SetUp() override {
    registry::MeshSettings settings;
    settings.reverse_zones = {"96.10.in-addr.arpa", "4.10.in-addr.arpa",
                              "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa"};
    configure(settings);
    be_authority();
    load(R"(
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00:96::1"], ports: [{ port: 80, name: http }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 80, name: http }]
endpoints: [{ addresses: [10.4.0.1] }, { addresses: [10.4.0.9], conditions: { ready: false } }]
---
apiVersion: v1
kind: Service
metadata: { name: db, namespace: shop }
spec: { clusterIP: None, ports: [{ port: 80, name: http }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: db-1, namespace: shop, labels: { kubernetes.io/service-name: db } }
addressType: IPv4
ports: [{ port: 80, name: http }]
endpoints: [{ addresses: [10.4.0.2], hostname: db-0 }, { addresses: [10.4.0.3] }]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api }
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: hidden, namespace: secret }
spec: { hosts: [hidden.example.org], addresses: [10.0.0.8], resolution: STATIC, exportTo: ["."] }
)");
  }
};

TEST_F(ReverseTest, KnownAddressesHaveNames) {
  const Row rows[] = {
      {"1.0.96.10.in-addr.arpa. PTR", "1.0.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local."},
      {"1.0.96.10.IN-ADDR.arpa. PTR", "1.0.96.10.IN-ADDR.arpa. 5 PTR web.shop.svc.cluster.local."},
      {"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa. PTR",
       "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa. 5 PTR "
       "web.shop.svc.cluster.local."},
      {"1.0.4.10.in-addr.arpa. PTR",
       "1.0.4.10.in-addr.arpa. 5 PTR 10-4-0-1.web.shop.svc.cluster.local."},
      {"2.0.4.10.in-addr.arpa. PTR",
       "2.0.4.10.in-addr.arpa. 5 PTR db-0.db.shop.svc.cluster.local."},
      {"7.0.0.10.in-addr.arpa. PTR", "7.0.0.10.in-addr.arpa. 30 PTR api.example.org."},
      {"7.0.0.10.in-addr.arpa. A", "NODATA 7.0.0.10.in-addr.arpa."},
      {"1.0.96.10.in-addr.arpa. TXT", "NODATA 96.10.in-addr.arpa."},
  };
  for (const Row& row : rows) EXPECT_EQ(ask(row.question), row.answer) << row.question;
}

TEST_F(ReverseTest, DeclaredZonesAreDeniedHere) {
  for (const char* question : {"9.0.4.10.in-addr.arpa. PTR", "77.0.4.10.in-addr.arpa. PTR",
                               "77.1.96.10.in-addr.arpa. TXT"})
    EXPECT_THAT(ask(question), testing::StartsWith("NXDOMAIN ")) << question;
  // what is no address
  for (const char* question : {"1.1.0.96.10.in-addr.arpa. PTR", "256.0.96.10.in-addr.arpa. PTR",
                               "01.0.96.10.in-addr.arpa. PTR", "x.0.96.10.in-addr.arpa. PTR"})
    EXPECT_EQ(ask(question), "NXDOMAIN 96.10.in-addr.arpa.") << question;
}

TEST_F(ReverseTest, ParentsOfKnownAddressesExist) {
  EXPECT_EQ(ask("0.96.10.in-addr.arpa. PTR"), "NODATA 96.10.in-addr.arpa.");
  EXPECT_EQ(ask("77.96.10.in-addr.arpa. PTR"), "NXDOMAIN 96.10.in-addr.arpa.");
  EXPECT_EQ(ask("96.10.in-addr.arpa. PTR"), "NODATA 96.10.in-addr.arpa.");
  EXPECT_EQ(ask("0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa. PTR"),
            "NODATA 0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.");
  EXPECT_THAT(ask("96.10.in-addr.arpa. SOA"),
              testing::MatchesRegex("96.10.in-addr.arpa. 5 SOA ns.dns.96.10.in-addr.arpa. "
                                    "hostmaster.96.10.in-addr.arpa. [0-9]+ 7200 1800 86400 5"));
}

TEST_F(ReverseTest, AllElseIsTheUpstreams) {
  for (const char* question :
       {"8.0.0.10.in-addr.arpa. PTR" /* hidden from this client */, "1.2.0.192.in-addr.arpa. PTR",
        "10.in-addr.arpa. NS", "in-addr.arpa. SOA", "1.0.168.192.in-addr.arpa. PTR", "arpa. NS"})
    EXPECT_EQ(ask(question), "FORWARD") << question;
}

TEST_F(ReverseTest, FallthroughLetsUnknownAddressesGoUpstream) {
  registry::MeshSettings settings;
  settings.reverse_zones = {"96.10.in-addr.arpa"};
  settings.fallthrough = {"in-addr.arpa"};
  configure(settings);
  EXPECT_EQ(ask("2.0.96.10.in-addr.arpa. PTR"), "FORWARD");
  EXPECT_EQ(ask("1.0.96.10.in-addr.arpa. PTR"),
            "1.0.96.10.in-addr.arpa. 5 PTR web.shop.svc.cluster.local.");
}

TEST(ReverseNameTest, ReadsWholeAndPartialAddresses) {
  EXPECT_EQ(parse_reverse_name("1.2.3.10.in-addr.arpa")->address.to_string(), "10.3.2.1");
  EXPECT_EQ(parse_reverse_name("3.10.in-addr.arpa")->missing, 2U);
  EXPECT_EQ(parse_reverse_name("in-addr.arpa")->missing, 4U);
  EXPECT_EQ(parse_reverse_name("8.b.d.0.1.0.0.2.ip6.arpa")->missing, 24U);
  for (const char* name :
       {"1.2.3.4.5.in-addr.arpa", "256.in-addr.arpa", "00.in-addr.arpa", "-1.in-addr.arpa",
        "1..in-addr.arpa", "g.ip6.arpa", "10.ip6.arpa", "example.org"})
    EXPECT_FALSE(parse_reverse_name(name)) << name;
}

}  // namespace
}  // namespace meshdns::dnsd
