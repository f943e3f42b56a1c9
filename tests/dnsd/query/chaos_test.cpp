// SPDX-License-Identifier: Apache-2.0
// Queries of class CH, and explanations.
#include "dnsd/answer/explanation.hpp"
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ChaosTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    be_in("web");
    load(R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: { name: narrow, namespace: web }
spec: { egress: [{ hosts: ["shop/*", "./*"] }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api, namespace: shop }
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: wild, namespace: shop }
spec: { hosts: ["*.wild.example.org"], addresses: [10.0.0.8], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: none, namespace: shop }
spec: { hosts: [none.example.org], resolution: NONE }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: hidden, namespace: shop }
spec: { hosts: [hidden.example.org], addresses: [10.0.0.9], resolution: STATIC, exportTo: ["."] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: outside, namespace: net }
spec: { hosts: [outside.example.org], addresses: [10.0.0.2], resolution: STATIC }
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
endpoints: [{ addresses: [10.4.0.1], conditions: { ready: false } }]
)");
  }
};

TEST_F(ChaosTest, SaysWhoWeAreAndWhoAsks) {
  EXPECT_THAT(ask("version.server. CH TXT"), HasSubstr("\"meshdns "));
  EXPECT_THAT(ask("version.bind. CH TXT"), HasSubstr("\"meshdns "));
  EXPECT_EQ(message_.answer.at(0).rclass, wire::Class::Chaos);
  ask("id.server. CH TXT");
  EXPECT_EQ(message_.answer.size(), 1U);
  EXPECT_THAT(
      ask("whoami.meshdns. CH TXT"),
      AllOf(HasSubstr("namespace web"), HasSubstr("Sidecar web/narrow"), HasSubstr("127.0.0.1")));
  EXPECT_EQ(ask("version.server. CH A"), "EMPTY");
}

TEST_F(ChaosTest, SaysWhyANameIsAnsweredAsItIs) {
  const struct {
    const char* question;
    std::vector<const char*> facts;
  } rows[] = {
      {"api.example.org. CH TXT",
       {"ServiceEntry shop/api (test.yaml:1)", "10.0.0.7", "A: answered", "NODATA"}},
      {"x.wild.example.org. CH TXT", {"ServiceEntry shop/wild", "wildcard *.wild.example.org"}},
      {"none.example.org. CH TXT",
       {"ServiceEntry shop/none", "NONE", "forwarded to 192.0.2.53:53"}},
      {"unknown.example.org. CH TXT", {"forwarded to 192.0.2.53:53"}},
      {"hidden.example.org. CH TXT", {"ServiceEntry shop/hidden", "exportTo"}},
      {"outside.example.org. CH TXT", {"net/outside", "Sidecar web/narrow"}},
      {"db.shop.svc.cluster.local. CH TXT",
       {"Service shop/db", "no ready endpoint", "10.4.0.1 not ready"}},
      {"api.example.org.web.svc.cluster.local. CH TXT",
       {"ServiceEntry shop/api", "leads to api.example.org."}},
      {"7.0.0.10.in-addr.arpa. CH TXT", {"PTR: answered", "api.example.org."}},
  };
  for (const auto& row : rows) {
    const std::string answer = ask(row.question, {.tcp = true});
    for (const char* fact : row.facts) EXPECT_THAT(answer, HasSubstr(fact)) << row.question;
  }
}

TEST_F(ChaosTest, OnlyTheOperatorHearsOfHiddenObjects) {
  settings_.chaos = ChaosAccess::Allowed;
  const AskOptions pod{.tcp = true, .from = "10.4.0.77"};
  EXPECT_THAT(ask("hidden.example.org. CH TXT", pod), Not(HasSubstr("shop/hidden")));
  EXPECT_THAT(ask("hidden.example.org. CH TXT", pod), Not(HasSubstr("10.0.0.9")));
  EXPECT_THAT(ask("outside.example.org. CH TXT", pod), Not(HasSubstr("net/outside")));
  EXPECT_THAT(ask("api.example.org. CH TXT", pod), HasSubstr("shop/api"));
  // Clients do not see queries of others or the state of upstream servers.
  EXPECT_THAT(ask("unknown.example.org. CH TXT", pod),
              AllOf(HasSubstr("A: forwarded"), Not(HasSubstr("cache")), Not(HasSubstr(" is up"))));
  EXPECT_THAT(ask("unknown.example.org. CH TXT", {.tcp = true}),
              AllOf(HasSubstr("cache, A: nothing"), HasSubstr("upstream: 192.0.2.53:53 is up")));
}

TEST_F(ChaosTest, OnlyTheOperatorHearsOfThePast) {
  settings_.chaos = ChaosAccess::Allowed;
  settings_.past = [](const registry::View& view, std::string_view name) {
    const registry::Match match = view.lookup("api.example.org");
    return std::vector{std::string(name) + " is " + std::string(match ? "seen" : "hidden")};
  };
  EXPECT_THAT(ask("api.example.org. CH TXT", {.tcp = true}), HasSubstr("api.example.org. is seen"));
  EXPECT_THAT(ask("api.example.org. CH TXT", {.tcp = true, .from = "10.4.0.77"}),
              AllOf(HasSubstr("shop/api"), Not(HasSubstr("is seen"))));
}

TEST_F(ChaosTest, OnlyTheOperatorHearsWhichHiddenEntryKeepsAnAddress) {
  settings_.chaos = ChaosAccess::Allowed;
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: young, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z" }
spec: { hosts: [young.example.org], resolution: STATIC, endpoints: [{ address: 10.2.0.1 }] }
status: { addresses: [{ host: young.example.org, value: 240.240.0.1 }, { host: young.example.org, value: 240.240.0.2 }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: hidden, namespace: bank, creationTimestamp: "2026-01-01T00:00:00Z" }
spec: { hosts: [hidden.example.org], resolution: STATIC, exportTo: ["."] }
status: { addresses: [{ host: hidden.example.org, value: 240.240.0.1 }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: seen, namespace: shop }
spec: { hosts: [seen.example.org], resolution: STATIC }
status: { addresses: [{ host: seen.example.org, value: 240.240.0.2 }] }
)");
  const auto hidden = AllOf(
      HasSubstr("240.240.0.1 is an address of ServiceEntry bank/hidden ("),
      HasSubstr("): it is older, created 2026-01-01T00:00:00Z; this one 2026-01-02T00:00:00Z"));
  const auto seen = AllOf(HasSubstr("240.240.0.2 is an address of ServiceEntry shop/seen ("),
                          HasSubstr("): it has no creationTimestamp and counts as older"));
  EXPECT_THAT(ask("young.example.org. CH TXT", {.tcp = true}), AllOf(hidden, seen));
  EXPECT_THAT(ask("young.example.org. CH TXT", {.tcp = true, .from = "10.4.0.77"}),
              AllOf(Not(HasSubstr("bank")), seen));
}

TEST_F(ChaosTest, OnlyTheOperatorHearsHowManyHostsThereAre) {
  settings_.chaos = ChaosAccess::Allowed;
  EXPECT_THAT(
      ask("whoami.meshdns. CH TXT", {.tcp = true, .from = "10.4.0.77"}),
      AllOf(HasSubstr("registry: serial "), Not(HasSubstr("hosts")), Not(HasSubstr("generation"))));
  EXPECT_THAT(ask("whoami.meshdns. CH TXT", {.tcp = true}),
              testing::ContainsRegex("generation [0-9]+, [0-9]+ hosts?, serial "));
}

TEST_F(ChaosTest, AccessIsThatOfTheConfiguration) {
  EXPECT_EQ(ask("whoami.meshdns. CH TXT", {.from = "10.4.0.77"}), "not aa, REFUSED, EDE 18");
  settings_.chaos = ChaosAccess::Off;
  handler().reconfigure(settings_);
  EXPECT_EQ(ask("whoami.meshdns. CH TXT"), "not aa, REFUSED, EDE 18");
}

// No socket of this machine is at the other end: the source is forged, or a rule for NAT made it.
TEST_F(ChaosTest, TheAddressThatIsAskedIsAsASourceNoProof) {
  const AskOptions udp{.from = "127.0.0.1", .local = "127.0.0.1"};
  EXPECT_THAT(ask("hidden.example.org. CH TXT", udp), HasSubstr("shop/hidden"));
  AskOptions forged{.from = "10.4.0.77", .local = "10.4.0.77"};
  EXPECT_EQ(ask("hidden.example.org. CH TXT", forged), "not aa, TC");
  EXPECT_THAT(ask("hidden.example.org. A", forged), Not(HasSubstr("TC"))) << "class CH alone";
  forged.tcp = true;
  EXPECT_EQ(ask("hidden.example.org. CH TXT", forged), "not aa, REFUSED, EDE 18");
  settings_.chaos = ChaosAccess::Allowed;
  handler().reconfigure(settings_);
  for (const bool tcp : {false, true}) {
    forged.tcp = tcp;
    EXPECT_THAT(ask("hidden.example.org. CH TXT", forged), Not(HasSubstr("shop/hidden")));
    EXPECT_THAT(ask("api.example.org. CH TXT", forged), HasSubstr("shop/api"));
  }
}

TEST_F(ChaosTest, ExplanationHasTheVeryRecordsOfTheAnswer) {
  const auto explanation = explain({.snapshot = *registry_.registry().current(),
                                    .client = *registry_.registry().current()->default_client,
                                    .settings = settings_,
                                    .name = "API.example.org",
                                    .types = {wire::Type::A, wire::Type::Aaaa}});
  ASSERT_TRUE(explanation);
  EXPECT_EQ(explanation->name, "API.example.org.");
  ASSERT_EQ(explanation->answers.size(), 2U);
  EXPECT_EQ(explanation->answers[0].records.size(), 1U);
  EXPECT_THAT(explanation->answers[0].records[0], HasSubstr("10.0.0.7"));
  EXPECT_EQ(explanation->answers[1].verdict, "NODATA");
  const std::string json = to_json(*explanation, Audience::Operator);
  EXPECT_THAT(json, AllOf(HasSubstr("\"type\":\"A\""), HasSubstr("ServiceEntry shop/api")));
}

TEST_F(ChaosTest, ExplanationCountsTheCandidatesThatItDoesNotShow) {
  std::string manifests;
  for (int i = 0; i < 30; ++i)
    manifests +=
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        "metadata: { name: crowd, namespace: ns-" +
        std::to_string(i) +
        " }\n"
        "spec: { hosts: [crowd.example.org], resolution: NONE }\n---\n";
  load(manifests);
  const auto explanation = explain({.snapshot = *registry_.registry().current(),
                                    .client = *registry_.registry().current()->default_client,
                                    .settings = settings_,
                                    .name = "crowd.example.org"});
  ASSERT_TRUE(explanation);
  EXPECT_THAT(to_lines(*explanation, Audience::Operator),
              testing::Contains("20 more candidates are not shown"));
  EXPECT_THAT(to_lines(*explanation, Audience::Client),
              Not(testing::Contains(HasSubstr("more candidates"))));
}

TEST_F(ChaosTest, ExplanationOfNoNameIsAnError) {
  EXPECT_FALSE(explain({.snapshot = *registry_.registry().current(),
                        .client = *registry_.registry().current()->default_client,
                        .settings = settings_,
                        .name = "a..b"}));
}

}  // namespace
}  // namespace meshdns::dnsd
