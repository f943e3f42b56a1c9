// SPDX-License-Identifier: Apache-2.0
// Hosts that ServiceEntries declare (docs/semantics-istio.md, "Hosts" and "Addresses in answers").
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class ServiceEntryTest : public QueryFixture {
 protected:
  void SetUp() override {
    load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api }
spec:
  hosts: [api.example.org]
  addresses: [10.0.0.7]
  ports: [{ number: 80, name: http, protocol: HTTP }, { number: 5432, name: db, protocol: TCP }, { number: 53, name: dns, protocol: UDP }]
  resolution: STATIC
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: six }
spec: { hosts: [six.example.org], addresses: ["2001:db8::6"], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: wild }
spec: { hosts: ["*.wild.example.org"], addresses: [10.0.0.8], ports: [{ number: 443, name: tls, protocol: TLS }], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: wide }
spec: { hosts: ["*.example.org"], addresses: [10.0.0.10], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: none }
spec: { hosts: [none.example.org], resolution: NONE }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: endpoints }
spec: { hosts: [endpoints.example.org], resolution: STATIC, endpoints: [{ address: 10.2.0.1 }, { address: 10.2.0.2 }] }
)");
  }
  void expect(std::initializer_list<Row> rows) {
    for (const Row& row : rows) EXPECT_EQ(ask(row.question), row.answer) << row.question;
  }
};

TEST_F(ServiceEntryTest, AnswersAddressesOfHostsAndWildcards) {
  expect({{"api.example.org. A", "api.example.org. 30 A 10.0.0.7"},
          {"aPi.Example.org. A", "aPi.Example.org. 30 A 10.0.0.7"},
          {"six.example.org. AAAA", "six.example.org. 30 AAAA 2001:db8::6"},
          {"x.wild.example.org. A", "x.wild.example.org. 30 A 10.0.0.8"},
          {"a.b.wild.example.org. A", "a.b.wild.example.org. 30 A 10.0.0.8"},
          {"*.wild.example.org. A", "*.wild.example.org. 30 A 10.0.0.8"},
          {"endpoints.example.org. A",
           "endpoints.example.org. 5 A 10.2.0.1, endpoints.example.org. 5 A 10.2.0.2"}});
}

TEST_F(ServiceEntryTest, OtherFamilyIsNoDataAndNeverForwarded) {
  expect({{"api.example.org. AAAA", "NODATA api.example.org."},
          {"six.example.org. A", "NODATA six.example.org."},
          {"x.wild.example.org. AAAA", "NODATA x.wild.example.org."},
          {"endpoints.example.org. AAAA", "NODATA endpoints.example.org."}});
  ASSERT_EQ(message_.authority.size(), 1U);
  EXPECT_THAT(wire::record_to_text(message_.authority[0]),
              testing::HasSubstr("ns.dns.cluster.local. hostmaster.cluster.local."));
}

TEST_F(ServiceEntryTest, HostLeftToTheUpstreamIsForwardedAndHidesWildcards) {
  expect({{"none.example.org. A", "FORWARD"},
          {"none.example.org. HTTPS", "FORWARD"},
          {"none.example.org. ANY",
           "not aa, none.example.org. 8482 HINFO \"ANY obsoleted\" \"See RFC 8482\""},
          {"other.example.org. A", "other.example.org. 30 A 10.0.0.10"},
          {"example.org. A", "FORWARD"}});
}

TEST_F(ServiceEntryTest, BindingsAreNoDataSinceTheirHintsLeadAroundTheVip) {
  expect({{"api.example.org. HTTPS", "NODATA api.example.org."},
          {"x.wild.example.org. SVCB", "NODATA x.wild.example.org."},
          {"endpoints.example.org. HTTPS", "NODATA endpoints.example.org."},
          // RFC 9460, section 2.3: of a port
          {"_8443._https.api.example.org. HTTPS", "NODATA _8443._https.api.example.org."},
          {"api.example.org. CNAME", "NODATA api.example.org."}});
}

TEST_F(ServiceEntryTest, OtherTypesReachTheUpstream) {
  expect({{"api.example.org. MX", "FORWARD"},
          {"api.example.org. TXT", "FORWARD"},
          {"api.example.org. NS", "FORWARD"},
          {"api.example.org. SRV", "FORWARD"},
          {"api.example.org. TYPE65280", "FORWARD"},
          {"x.wild.example.org. TXT", "FORWARD"}});
}

TEST_F(ServiceEntryTest, SrvIsAnsweredFromThePorts) {
  expect({{"_http._tcp.api.example.org. SRV",
           "_http._tcp.api.example.org. 30 SRV 0 100 80 api.example.org., + api.example.org. 30 A "
           "10.0.0.7"},
          {"_db._tcp.api.example.org. SRV",
           "_db._tcp.api.example.org. 30 SRV 0 100 5432 api.example.org., + api.example.org. 30 A "
           "10.0.0.7"},
          {"_dns._udp.api.example.org. SRV",
           "_dns._udp.api.example.org. 30 SRV 0 100 53 api.example.org., + api.example.org. 30 A "
           "10.0.0.7"},
          {"_tls._tcp.x.wild.example.org. SRV",
           "_tls._tcp.x.wild.example.org. 30 SRV 0 100 443 x.wild.example.org., + "
           "x.wild.example.org. 30 A 10.0.0.8"},
          {"_missing._tcp.api.example.org. SRV", "FORWARD"},
          {"_http._udp.api.example.org. SRV", "FORWARD"}});
}

TEST_F(ServiceEntryTest, AnyIsOneRecord) {
  EXPECT_EQ(ask("api.example.org. ANY"),
            "api.example.org. 8482 HINFO \"ANY obsoleted\" \"See RFC 8482\"");
}

TEST_F(ServiceEntryTest, TtlsAreThoseOfTheConfiguration) {
  registry::MeshSettings settings;
  settings.ttl = {.vip = 77, .endpoint = 11, .kubernetes = 13, .negative = 400};
  configure(settings);
  expect({{"api.example.org. A", "api.example.org. 77 A 10.0.0.7"},
          {"endpoints.example.org. A",
           "endpoints.example.org. 11 A 10.2.0.1, endpoints.example.org. 11 A 10.2.0.2"},
          {"api.example.org. AAAA", "NODATA api.example.org."}});
  // the SOA's own TTL is at most 300
  EXPECT_EQ(message_.authority[0].ttl, 300U);
  EXPECT_TRUE(wire::record_to_text(message_.authority[0]).ends_with(" 400"));
}

TEST_F(ServiceEntryTest, ClientWithoutAFamilyIsNotGivenIt) {
  registry::ClientIdentity identity;
  identity.ipv6 = false;
  registry_.be(identity);
  expect({{"six.example.org. AAAA", "NODATA six.example.org."}});
}

TEST_F(ServiceEntryTest, SpecialNamesAreAnsweredHereWhateverResourcesSay) {
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: squatter }
spec: { hosts: [localhost, x.onion], addresses: [203.0.113.1], resolution: STATIC }
)");
  expect({{"localhost. A", "localhost. 5 A 127.0.0.1"},
          {"x.LocalHost. AAAA", "x.LocalHost. 5 AAAA ::1"},
          {"localhost. TXT", "NODATA localhost."},
          {"x.onion. A", "NXDOMAIN onion."},
          {"invalid. A", "NXDOMAIN invalid."},
          {"a.b.alt. TXT", "NXDOMAIN alt."},
          {"salt. A", "FORWARD"},
          {"printer.local. A", "FORWARD"}});
  EXPECT_TRUE(upstream_.asked.size() == 2);
}

TEST_F(ServiceEntryTest, LabelsThatNoHostHasMatchWildcardsOnly) {
  expect({{"a\\000b.wild.example.org. A", "a\\000b.wild.example.org. 30 A 10.0.0.8"},
          {"a\\.b.wild.example.org. A", "a\\.b.wild.example.org. 30 A 10.0.0.8"},
          {"x.a\\.b.wild.example.org. A", "x.a\\.b.wild.example.org. 30 A 10.0.0.8"},
          {"a%s\\010.wild.example.org. A", "a%s\\010.wild.example.org. 30 A 10.0.0.8"},
          // "api\.example" is one label: neither the host nor a name below it
          {"api\\.example.org. A", "FORWARD"},
          {"\\000. A", "FORWARD"}});
}

TEST_F(ServiceEntryTest, TruncatedAnswerHasAsManyWholeRecordsAsFit) {
  std::string addresses;
  for (int i = 1; i <= 40; ++i) addresses += (i > 1 ? ", 10.1.0." : "10.1.0.") + std::to_string(i);
  load(
      "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: many }\nspec: { "
      "hosts: [many.example.net], addresses: [" +
      addresses + "], resolution: STATIC }\n");
  // 12 octets of header, 22 of question, 16 a record
  ask("many.example.net. A", {.edns = false});
  EXPECT_EQ(message_.answer.size(), 29U);
  EXPECT_TRUE(message_.truncated);
  ask("many.example.net. A", {.bufsize = 100});  // below 512 counts as 512; 11 are OPT's
  EXPECT_EQ(message_.answer.size(), 29U);
  EXPECT_LE(reply_.size(), 512U);
  ask("many.example.net. A", {.bufsize = 1232});
  EXPECT_EQ(message_.answer.size(), 40U);
  EXPECT_FALSE(message_.truncated);
  ask("many.example.net. A", {.tcp = true, .edns = false});
  EXPECT_EQ(message_.answer.size(), 40U);
}

TEST_F(ServiceEntryTest, AddressesAreFirstEquallyOften) {
  std::map<std::string, int> first;
  for (int i = 0; i < 100; ++i) {
    ask("endpoints.example.org. A");
    ++first[message_.answer.at(0).rdata];
  }
  ASSERT_EQ(first.size(), 2U);
  for (const auto& [address, times] : first) EXPECT_EQ(times, 50);
}

TEST_F(ServiceEntryTest, WeightsAreKept) {
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: weighted }
spec:
  hosts: [weighted.example.net]
  resolution: STATIC
  endpoints: [{ address: 10.3.0.1, weight: 3 }, { address: 10.3.0.2 }, { address: 10.3.0.3, weight: 1 }]
)");
  std::map<std::string, int> first;
  for (int i = 0; i < 500; ++i) {
    ask("weighted.example.net. A");
    EXPECT_EQ(message_.answer.size(), 3U);
    ++first[message_.answer.at(0).rdata];
  }
  EXPECT_NEAR(first[std::string("\x0a\x03\0\x01", 4)], 300, 3);
  EXPECT_NEAR(first[std::string("\x0a\x03\0\x02", 4)], 100, 3);
}

}  // namespace
}  // namespace meshdns::dnsd
