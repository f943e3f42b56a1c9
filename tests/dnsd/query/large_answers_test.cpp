// SPDX-License-Identifier: Apache-2.0
// Very large Services, addresses with many names and long chains: complete or fairly chosen
// answers, and bounds for the work.
#include <set>

#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class LargeAnswersTest : public QueryFixture {
 protected:
  void SetUp() override {
    registry::MeshSettings settings;
    settings.reverse_zones = {"10.in-addr.arpa"};
    settings.search_shortcut = registry::SearchShortcut::All;
    configure(settings);
    be_authority();
    be_in("shop");
  }
  static std::string v4(std::size_t i) {
    return "10.4." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
  }
  // `hostname` of the i-th endpoint; empty: none.
  template <typename Hostname>
  void headless(std::size_t endpoints, const Hostname& hostname, std::string_view more = {}) {
    std::string yaml = R"(
Service shop/db
spec: { clusterIP: None, ports: [{ port: 80, name: http }] }
EndpointSlice shop/db-1 {labels: { kubernetes.io/service-name: db }}
addressType: IPv4
ports: [{ port: 80, name: http }]
endpoints:
)";
    for (std::size_t i = 0; i < endpoints; ++i) {
      yaml += "- { addresses: [" + v4(i) + "]";
      const std::string name = hostname(i);
      if (!name.empty()) yaml += ", hostname: " + name;
      yaml += " }\n";
    }
    load(yaml + std::string(more));
  }
  // The SRV targets of the last answer; each must be there once.
  std::set<std::string> targets() const {
    std::set<std::string> targets;
    for (const auto& record : message_.answer) {
      if (record.type != wire::Type::Srv) continue;
      const auto added = targets.insert(wire::name_to_text(record.rdata.substr(6)));
      EXPECT_TRUE(added.second) << *added.first;
    }
    return targets;
  }
};

const auto kNoName = [](std::size_t) { return std::string(); };

TEST_F(LargeAnswersTest, SrvOverTcpHasEveryEndpointAndItsAddress) {
  headless(500, kNoName);
  for (const char* question :
       {"_http._tcp.db.shop.svc.cluster.local. SRV", "db.shop.svc.cluster.local. SRV"}) {
    ask(question, {.tcp = true});
    EXPECT_EQ(message_.answer.size(), 500U);
    EXPECT_EQ(message_.additional.size(), 500U);
    EXPECT_FALSE(message_.truncated);
    const auto all = targets();
    EXPECT_EQ(all.size(), 500U);
    EXPECT_TRUE(all.contains("10-4-0-1.db.shop.svc.cluster.local."));
    EXPECT_TRUE(all.contains("10-4-1-250.db.shop.svc.cluster.local."));
    for (const auto& record : message_.additional)
      EXPECT_TRUE(all.contains(wire::name_to_text(record.owner)));
  }
}

TEST_F(LargeAnswersTest, SrvOverUdpShowsEachEndpointInTurn) {
  headless(200, kNoName);
  std::set<std::string> seen;
  for (int i = 0; i < 250; ++i) {
    ask("_http._tcp.db.shop.svc.cluster.local. SRV", {.bufsize = 512});
    EXPECT_TRUE(message_.truncated);
    seen.merge(targets());
  }
  EXPECT_EQ(seen.size(), 200U);
}

TEST_F(LargeAnswersTest, EveryEndpointHasItsNameAndItsPointer) {
  headless(400, [](std::size_t i) { return i % 2 == 0 ? "member-" + std::to_string(i) : ""; });
  EXPECT_EQ(ask("member-2.db.shop.svc.cluster.local. A"),
            "member-2.db.shop.svc.cluster.local. 5 A 10.4.0.3");
  EXPECT_EQ(ask("10-4-0-4.db.shop.svc.cluster.local. A"),
            "10-4-0-4.db.shop.svc.cluster.local. 5 A 10.4.0.4");
  EXPECT_EQ(ask("10-4-0-3.db.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.")
      << "it has a name of its own";
  EXPECT_EQ(ask("member-2.db.shop.svc.cluster.local. AAAA"), "NODATA cluster.local.");
  EXPECT_EQ(ask("3.0.4.10.in-addr.arpa. PTR"),
            "3.0.4.10.in-addr.arpa. 5 PTR member-2.db.shop.svc.cluster.local.");
  EXPECT_EQ(ask("4.0.4.10.in-addr.arpa. PTR"),
            "4.0.4.10.in-addr.arpa. 5 PTR 10-4-0-4.db.shop.svc.cluster.local.");
  EXPECT_EQ(ask("0.4.10.in-addr.arpa. PTR"), "NODATA 10.in-addr.arpa.");
  EXPECT_EQ(ask("200.4.10.in-addr.arpa. PTR"), "NXDOMAIN 10.in-addr.arpa.");
}

TEST_F(LargeAnswersTest, EndpointsOfOneNameAreOneTargetWithManyAddresses) {
  headless(300, [](std::size_t) { return std::string("member"); });
  ask("_http._tcp.db.shop.svc.cluster.local. SRV", {.tcp = true});
  EXPECT_EQ(message_.answer.size(), 1U);
  EXPECT_EQ(message_.additional.size(), 300U);
  ask("member.db.shop.svc.cluster.local. A", {.tcp = true});
  EXPECT_EQ(message_.answer.size(), 300U);
  std::set<std::string> seen;
  for (const auto& record : message_.answer) seen.insert(record.rdata);
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_EQ(ask("member.db.shop.svc.cluster.local. AAAA"), "NODATA cluster.local.");
}

TEST_F(LargeAnswersTest, AnAddressInTwoSlicesIsGivenOnce) {
  std::string again = R"(
EndpointSlice shop/db-2 {labels: { kubernetes.io/service-name: db }}
addressType: IPv4
ports: [{ port: 80, name: http }, { port: 81, name: more }]
endpoints:
)";
  for (std::size_t i = 0; i < 100; ++i)
    again += "- { addresses: [" + v4(i) + "], hostname: member }\n";
  headless(100, [](std::size_t) { return std::string("member"); }, again);
  for (int turn = 0; turn < 200; ++turn) {
    ask("member.db.shop.svc.cluster.local. A", {.tcp = true});
    std::set<std::string> seen;
    for (const auto& record : message_.answer) EXPECT_TRUE(seen.insert(record.rdata).second);
    EXPECT_EQ(seen.size(), 100U);
    ask("db.shop.svc.cluster.local. SRV", {.tcp = true});
    EXPECT_EQ(message_.answer.size(), 2U) << "ports 80 and 81";
    ask("_http._tcp.db.shop.svc.cluster.local. SRV", {.tcp = true});
    EXPECT_EQ(message_.answer.size(), 1U);
  }
}

TEST_F(LargeAnswersTest, AMissingPortOrEndpointIsANameError) {
  headless(300, kNoName);
  for (const char* question :
       {"_none._tcp.db.shop.svc.cluster.local. SRV", "_udp.db.shop.svc.cluster.local. SRV",
        "nobody.db.shop.svc.cluster.local. A", "10-9-9-9.db.shop.svc.cluster.local. A"})
    EXPECT_EQ(ask(question), "NXDOMAIN cluster.local.") << question;
}

// The clusters of more than 1,024 endpoints are not looked for: a name that may be one exists.
TEST_F(LargeAnswersTest, EveryLabelMayBeAClusterOfAVeryLargeClusterSet) {
  registry::MeshSettings settings;
  settings.cluster_set_authoritative = true;
  configure(settings);
  for (const bool has_clusters : {true, false})
    for (const std::size_t count : {1'024, 1'025}) {
      std::string yaml = R"(
ServiceImport shop/db
spec: { type: Headless, ports: [{ port: 80, name: http, protocol: TCP }] }
)";
      for (std::size_t i = 0; i < count; ++i) {
        if (i % 1'000 == 0)  // the most that a slice may have
          yaml +=
              "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: db-" +
              std::to_string(i) +
              ", namespace: shop, labels: { multicluster.kubernetes.io/service-name: db" +
              (has_clusters ? ", multicluster.kubernetes.io/source-cluster: one" : "") +
              " } }\naddressType: IPv4\nendpoints:\n";
        yaml += "- { addresses: [" + v4(i) + "] }\n";
      }
      load(yaml);
      const std::string no_data = "NODATA clusterset.local.";
      const std::string missing = "NXDOMAIN clusterset.local.";
      const bool may_be_any = has_clusters && count > 1'024;
      EXPECT_EQ(ask("one.db.shop.svc.clusterset.local. A"), has_clusters ? no_data : missing);
      EXPECT_EQ(ask("other.db.shop.svc.clusterset.local. A"), may_be_any ? no_data : missing);
      EXPECT_EQ(ask("x.one.db.shop.svc.clusterset.local. A"), missing);
    }
}

TEST_F(LargeAnswersTest, EveryPortOfAServiceHasItsRecord) {
  std::string ports;
  for (int i = 1; i <= 300; ++i)
    ports += (i > 1 ? ", " : "") + std::string("{ name: p") + std::to_string(i) +
             ", port: " + std::to_string(i) + " }";
  load("Service shop/web\nspec: { clusterIP: 10.96.0.1, ports: [" + ports + "] }\n");
  ask("web.shop.svc.cluster.local. SRV", {.tcp = true});
  EXPECT_EQ(message_.answer.size(), 300U);
  EXPECT_EQ(message_.additional.size(), 1U);
  ask("_p300._tcp.web.shop.svc.cluster.local. SRV");
  ASSERT_EQ(message_.answer.size(), 1U);
  EXPECT_EQ(message_.answer[0].rdata.substr(2, 4), std::string("\0\x64\x01\x2c", 4));
}

TEST_F(LargeAnswersTest, AnAddressOfVeryManyNamesGivesSomeOfThem) {
  std::string yaml;
  for (int i = 0; i < 700; ++i)
    yaml += "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: e" +
            std::to_string(i) + ", namespace: shop }\nspec: { hosts: [e" + std::to_string(i) +
            ".example.org], addresses: [10.9.0.1], resolution: STATIC }\n";
  load(yaml);
  ask("1.0.9.10.in-addr.arpa. PTR", {.tcp = true});
  EXPECT_EQ(message_.answer.size(), registry::View::kMaxReverseNames);
}

// A chain at each step of the search list would cost a look-up for each link, but the client itself
// walks for names of one label.
TEST_F(LargeAnswersTest, NoQueryFollowsTheAliasesOfAllSearchDomains) {
  registry::ClientIdentity identity;
  identity.ns = "shop";
  std::string yaml;
  for (int i = 0; i < 30; ++i) {
    const std::string domain = "d" + std::to_string(i) + ".svc.cluster.local";
    identity.search.push_back(domain);
    for (int link = 0; link < 6; ++link)
      yaml += "---\napiVersion: v1\nkind: Service\nmetadata: { name: " +
              (link == 0 ? std::string("x") : "c" + std::to_string(link)) + ", namespace: d" +
              std::to_string(i) + " }\nspec: { type: ExternalName, externalName: " +
              (link == 5 ? std::string("nobody.nowhere")
                         : "c" + std::to_string(link + 1) + ".d" + std::to_string(i)) +
              ".svc.cluster.local }\n";
  }
  load(yaml);
  identity.search.insert(identity.search.begin(), "first.svc.cluster.local");
  registry_.be(identity);
  EXPECT_EQ(ask("x.first.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(ask_through("y.x.first.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(handler().counters().overworked.value(), 0U);
}

std::string deep_name(int labels, std::string_view end) {
  std::string name;
  for (int i = 0; i < labels; ++i) name += "x.";
  return name + std::string(end);
}

// Entry `i` of 100 wildcards above one name.
std::string wildcards_of_parts(int i, int port, std::string_view ns) {
  std::string hosts;
  for (int depth = 0; depth < 100; ++depth)
    hosts += (depth == 0 ? "\"*." : ", \"*.") + deep_name(depth, "parts.example") + "\"";
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: e" +
         std::to_string(i) + ", namespace: other }\nspec: { hosts: [" + hosts +
         "], addresses: [10.0.0.9], resolution: STATIC, exportTo: [\"" + std::string(ns) +
         "\"], ports: [{ number: " + std::to_string(port) + ", name: http, protocol: HTTP }] }\n";
}

constexpr std::string_view kOwnApi = R"(
ServiceEntry shop/api
spec: { hosts: [api.example.org, "*.api.example.org"], addresses: [10.0.0.1], resolution: STATIC,
        ports: [{ number: 80, name: http, protocol: HTTP }] }
)";

// Each of 100 wildcards above the name has 64 parts.  The client may see those of one kind, and its
// Sidecar imports the port of the other kind.  A look at all of them took milliseconds.
TEST_F(LargeAnswersTest, WildcardsOfManyPartsThatNobodySeesCostLittle) {
  std::string yaml = R"(
Sidecar shop/default
spec: { egress: [{ port: { number: 80, protocol: HTTP, name: http }, hosts: ["*/*"] }] }
)";
  yaml += kOwnApi;
  for (int i = 0; i < 64; ++i)
    yaml += i == 0 ? wildcards_of_parts(i, 80, "other") : wildcards_of_parts(i, 1000 + i, "shop");
  load(yaml);
  EXPECT_TRUE(ask(deep_name(110, "parts.example") + " A").starts_with("FORWARD"));
  EXPECT_EQ(handler().counters().overworked.value(), 0U);
}

// Each part has the port of another listener, which does not import it; the last is imported and
// hidden.
TEST_F(LargeAnswersTest, WildcardsWithThePortsOfManyListenersAreTooMuchWork) {
  std::string yaml =
      "Sidecar shop/default\nspec:\n  egress:\n  - { port: { number: 80, protocol: HTTP, name: "
      "http }, hosts: [\"*/*\"] }\n";
  for (int i = 0; i < 64; ++i)
    yaml += "  - { port: { number: " + std::to_string(1000 + i) +
            ", protocol: HTTP, name: http }, hosts: [\"bank/*\"] }\n";
  yaml += kOwnApi;
  for (int i = 0; i < 64; ++i) yaml += wildcards_of_parts(i, 1000 + i, "*");
  yaml += wildcards_of_parts(64, 80, "other");
  load(yaml);
  EXPECT_EQ(ask(deep_name(110, "parts.example") + " A"), "not aa, SERVFAIL, EDE 0");
  EXPECT_EQ(handler().counters().overworked.value(), 1U);
  EXPECT_THAT(ask(deep_name(110, "parts.example") + " CH TXT", {.tcp = true}),
              testing::HasSubstr("work: most of it is made by objects of namespace other "));
  EXPECT_EQ(ask(deep_name(110, "api.example.org") + " A"),
            deep_name(110, "api.example.org") + ". 30 A 10.0.0.1");
  EXPECT_EQ(handler().counters().overworked.value(), 1U);
}

constexpr std::string_view kHiddenOwners = R"(
Pod other/web
spec: {}
status: { phase: Running, podIP: 11.0.0.1, podIPs: [{ ip: 11.0.0.1 }] }
Service other/hidden {annotations: { networking.istio.io/exportTo: "." }}
spec: { clusterIP: 11.0.0.2, ports: [{ port: 80, name: http }] }
)";

// More hosts that the client sees have an address than are looked at, and no name for it: their
// endpoints are not ready.  An address that the cluster has given to somebody is not denied then,
// nor one of a zone that is answered here; any other is the upstream's.
TEST_F(LargeAnswersTest, AWalkThatIsCutShortDeniesNoAddressOfTheCluster) {
  std::string yaml(kHiddenOwners);
  for (int i = 0; i < 200; ++i) {
    const std::string name = "s" + std::to_string(i);
    yaml += "---\napiVersion: v1\nkind: Service\nmetadata: { name: " + name +
            ", namespace: other }\nspec: { clusterIP: None, ports: [{ port: 80, name: http }] }\n"
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: " +
            name + "-1, namespace: other, labels: { kubernetes.io/service-name: " + name +
            " } }\naddressType: IPv4\nports: [{ port: 80, name: http }]\nendpoints: [";
    for (const char* const address : {"11.0.0.1", "11.0.0.2", "11.0.0.3", "10.9.9.9"})
      yaml += std::string("{ addresses: [") + address + "], conditions: { ready: false } }, ";
    yaml.replace(yaml.size() - 2, 2, "]\n");
  }
  load(yaml);
  for (const char* const assigned :
       {"1.0.0.11.in-addr.arpa. PTR", "2.0.0.11.in-addr.arpa. PTR", "9.9.9.10.in-addr.arpa. PTR"})
    EXPECT_EQ(ask(assigned), "not aa, SERVFAIL, EDE 0") << assigned;
  EXPECT_EQ(ask("3.0.0.11.in-addr.arpa. PTR"), "FORWARD");
  EXPECT_EQ(ask("4.0.0.11.in-addr.arpa. PTR"), "FORWARD");
}

// Hidden ones change nothing, however many they are.
TEST_F(LargeAnswersTest, HiddenClaimsOfAnAddressChangeNoVerdict) {
  std::string hosts;
  for (int i = 0; i < 200; ++i) hosts += (i == 0 ? "h" : ", h") + std::to_string(i) + ".example";
  const std::string claims =
      "ServiceEntry other/all\nspec: { hosts: [" + hosts +
      "], addresses: [11.0.0.1, 11.0.0.2, 11.0.0.3, 10.9.9.9], resolution: STATIC, exportTo: "
      "[\".\"] }\n";
  for (const std::string& crowd : {std::string(), claims}) {
    load(std::string(kHiddenOwners) + crowd);
    for (const char* const outside :
         {"1.0.0.11.in-addr.arpa. PTR", "2.0.0.11.in-addr.arpa. PTR", "3.0.0.11.in-addr.arpa. PTR"})
      EXPECT_EQ(ask(outside), "FORWARD") << outside;
    EXPECT_EQ(ask("9.9.9.10.in-addr.arpa. PTR").substr(0, 8), "NXDOMAIN");
  }
}

// Each of the search domains of one Pod leads to a name of 110 labels, of which each costs a look:
// somebody has made wildcards whose names look like the ends of it.
TEST_F(LargeAnswersTest, AWalkThroughVeryDeepNamesIsTooMuchWork) {
  std::string hosts;
  for (int depth = 0; depth < 100; ++depth)
    hosts += (depth == 0 ? "\"*." : ", \"*.") + deep_name(depth, "shop.svc.cluster.legal") + "\"";
  load("ServiceEntry shop/w\nspec: { hosts: [" + hosts +
       "], addresses: [10.0.0.1], resolution: STATIC }\n");
  registry::ClientIdentity identity;
  identity.ns = "shop";
  identity.search.push_back("first.svc.cluster.local");
  for (int i = 0; i < 31; ++i) identity.search.push_back(deep_name(i, "shop.svc.cluster.local"));
  registry_.be(identity);
  EXPECT_EQ(ask_through(deep_name(75, "first.svc.cluster.local") + " A"),
            "not aa, SERVFAIL, EDE 0");
  EXPECT_EQ(handler().counters().overworked.value(), 1U);
  EXPECT_EQ(ask_through(deep_name(8, "first.svc.cluster.local") + " A"), "NXDOMAIN cluster.local.")
      << "usual names are no such work";
  EXPECT_EQ(handler().counters().overworked.value(), 1U);
}

}  // namespace
}  // namespace meshdns::dnsd
