// SPDX-License-Identifier: Apache-2.0
// Search domains that resolvers append (docs/semantics-istio.md, "Search names").
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class SearchTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    be_in("shop");
    load(R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api, namespace: net }
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: wild, namespace: net }
spec: { hosts: ["*.wild.example.org"], addresses: [10.0.0.8], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: none, namespace: net }
spec: { hosts: [none.example.org], resolution: NONE }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: foo, namespace: net }
spec: { hosts: [foo], addresses: [10.0.0.9], resolution: STATIC }
---
apiVersion: v1
kind: Service
metadata: { name: foo, namespace: shop }
spec: { clusterIP: 10.96.0.9, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: shop, namespace: shop }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: other }
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http, protocol: TCP }] }
---
apiVersion: v1
kind: Service
metadata: { name: other, namespace: shop }
spec: { clusterIP: 10.96.0.11, ports: [{ port: 80 }] }
)");
  }
  void walk(std::vector<std::string> search) {
    registry::MeshSettings settings;
    settings.search_shortcut = registry::SearchShortcut::All;
    configure(settings);
    registry::ClientIdentity identity;
    identity.ns = "shop";
    identity.search = std::move(search);
    registry_.be(identity);
  }
};

TEST_F(SearchTest, KnownNameBehindAnyOfTheClientsDomainsIsAnAlias) {
  for (const char* domain : {"shop.svc.cluster.local.", "svc.cluster.local.", "cluster.local."}) {
    const std::string name = std::string("api.example.org.") + domain;
    EXPECT_EQ(ask(name + " A"), name + " 5 CNAME api.example.org., api.example.org. 30 A 10.0.0.7");
    EXPECT_EQ(ask(name + " AAAA"), name + " 5 CNAME api.example.org., @ api.example.org. SOA");
  }
  EXPECT_EQ(ask("API.Example.org.Shop.svc.cluster.local. A"),
            "API.Example.org.Shop.svc.cluster.local. 5 CNAME api.example.org., api.example.org. 30 "
            "A 10.0.0.7");
}

TEST_F(SearchTest, TargetIsAnAbsoluteNameThatResolves) {
  EXPECT_EQ(ask("x.wild.example.org.shop.svc.cluster.local. A"),
            "x.wild.example.org.shop.svc.cluster.local. 5 CNAME x.wild.example.org., "
            "x.wild.example.org. 30 A 10.0.0.8");
  // "web.other" is also what an endpoint of the service `other` would be called
  EXPECT_EQ(ask("web.other.shop.svc.cluster.local. A"),
            "web.other.shop.svc.cluster.local. 5 CNAME web.other.svc.cluster.local., "
            "web.other.svc.cluster.local. 5 A 10.96.0.1");
  EXPECT_EQ(
      ask("web.other.svc.cluster.local.shop.svc.cluster.local. A"),
      "web.other.svc.cluster.local.shop.svc.cluster.local. 5 CNAME web.other.svc.cluster.local., "
      "web.other.svc.cluster.local. 5 A 10.96.0.1");
  // "_http._tcp.web.other.svc" with the search domain "svc.cluster.local"
  EXPECT_EQ(
      ask("_http._tcp.web.other.svc.svc.cluster.local. SRV"),
      "_http._tcp.web.other.svc.svc.cluster.local. 5 CNAME "
      "_http._tcp.web.other.svc.cluster.local., _http._tcp.web.other.svc.cluster.local. 5 SRV 0 "
      "100 80 web.other.svc.cluster.local., + web.other.svc.cluster.local. 5 A 10.96.0.1");
  EXPECT_EQ(ask("_http._tcp.web.other.svc.cluster.local. SRV"),
            "_http._tcp.web.other.svc.cluster.local. 5 SRV 0 100 80 web.other.svc.cluster.local., "
            "+ web.other.svc.cluster.local. 5 A 10.96.0.1");
}

TEST_F(SearchTest, RealNamesComeBeforeAliases) {
  EXPECT_EQ(ask("foo.shop.svc.cluster.local. A"), "foo.shop.svc.cluster.local. 5 A 10.96.0.9");
  // a namespace is a real name, too, even if a service is called alike
  EXPECT_EQ(ask("shop.svc.cluster.local. A"), "NODATA cluster.local.");
}

TEST_F(SearchTest, HostLeftToTheUpstreamIsAskedForWithoutTheSuffix) {
  EXPECT_EQ(ask("none.example.org.shop.svc.cluster.local. A"), "FORWARD none.example.org. A");
}

TEST_F(SearchTest, OtherClientsDomainsDoNotCount) {
  EXPECT_EQ(ask("api.example.org.other.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
}

TEST_F(SearchTest, UnknownNamesAreDenied) {
  EXPECT_EQ(ask("www.example.org.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
}

TEST_F(SearchTest, ShortcutCanBeSwitchedOff) {
  registry::MeshSettings settings;
  settings.search_shortcut = registry::SearchShortcut::Off;
  configure(settings);
  EXPECT_EQ(ask("api.example.org.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
}

TEST_F(SearchTest, NegativeStepBecomesPositiveWithTheObject) {
  EXPECT_EQ(ask("late.example.org.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: late }
spec: { hosts: [late.example.org], addresses: [10.0.0.12], resolution: STATIC }
)");
  EXPECT_EQ(ask("late.example.org.shop.svc.cluster.local. A"),
            "late.example.org.shop.svc.cluster.local. 5 CNAME late.example.org., "
            "late.example.org. 30 A 10.0.0.12");
}

TEST_F(SearchTest, WalkCostsOneQuestionUpstream) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"});
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., www.example.net. 60 "
            "A 192.0.2.1");
  EXPECT_EQ(upstream_.asked, std::vector<std::string>{"www.example.net. A"});
  // the family that it lacks is empty, not missing: musl would drop the good one
  upstream_.replies["www.example.net. AAAA"] = {
      .authority = {"example.net. 30 SOA ns.example.net."}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. AAAA"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., @ example.net. SOA");
}

TEST_F(SearchTest, WalkThatFindsNothingIsOneNameError) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"});
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(upstream_.asked,
            (std::vector<std::string>{"www.example.net. A", "www.example.net.corp.example. A"}));
}

TEST_F(SearchTest, WalkOfASingleLabelFollowsTheClientsOrder) {
  walk({"shop.svc.cluster.local", "corp.example", "example.net"});
  upstream_.replies["www.corp.example. A"] = {.answer = {"www.corp.example. 60 A 192.0.2.1"}};
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.2"}};
  upstream_.replies["ftp.example.net. A"] = {.answer = {"ftp.example.net. 60 A 192.0.2.3"}};
  EXPECT_EQ(
      ask_through("www.shop.svc.cluster.local. A"),
      "www.shop.svc.cluster.local. 5 CNAME www.corp.example., www.corp.example. 60 A 192.0.2.1");
  EXPECT_EQ(
      ask_through("ftp.shop.svc.cluster.local. A"),
      "ftp.shop.svc.cluster.local. 5 CNAME ftp.example.net., ftp.example.net. 60 A 192.0.2.3");
}

TEST_F(SearchTest, WalkGoesThroughTheUpstreamsAliases) {
  walk({"shop.svc.cluster.local"});
  upstream_.replies["alias.example.net. A"] = {
      .answer = {"alias.example.net. 60 CNAME www.example.net.",
                 "www.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("alias.example.net.shop.svc.cluster.local. A"),
            "alias.example.net.shop.svc.cluster.local. 5 CNAME alias.example.net., "
            "alias.example.net. 60 CNAME www.example.net., www.example.net. 60 A 192.0.2.1");
}

TEST_F(SearchTest, WalkBeginsWithTheUpstreamWhereTheNameIsNotOurs) {
  walk({"corp.example", "example.net"});
  upstream_.replies["www.corp.example. A"] = {.answer = {"www.corp.example. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("www.corp.example. A"), "not aa, www.corp.example. 60 A 192.0.2.1");
  upstream_.replies["ftp.example.net. A"] = {.answer = {"ftp.example.net. 60 A 192.0.2.3"}};
  EXPECT_EQ(ask_through("ftp.corp.example. A"),
            "ftp.corp.example. 5 CNAME ftp.example.net., ftp.example.net. 60 A 192.0.2.3");
  // the upstream's own denial of what was asked
  EXPECT_EQ(ask_through("gone.corp.example. A"), "not aa, NXDOMAIN, @ . SOA");
}

TEST_F(SearchTest, WalkThatFailsIsNoNameError) {
  walk({"shop.svc.cluster.local"});
  upstream_.replies["www.example.net. A"].rcode = wire::Rcode::ServFail;
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"), "not aa, SERVFAIL, EDE 22");
}

TEST_F(SearchTest, WalkAsksAtMostEightQuestions) {
  std::vector<std::string> domains;
  for (int i = 0; i < 20; ++i) domains.push_back("d" + std::to_string(i) + ".example");
  walk(domains);
  EXPECT_EQ(ask_through("x.d0.example. A"), "not aa, SERVFAIL, EDE 22");
  EXPECT_EQ(upstream_.asked.size(), 8U);
}

}  // namespace
}  // namespace meshdns::dnsd
