// SPDX-License-Identifier: Apache-2.0
// ExternalName Services (docs/semantics-kubernetes.md, "ExternalName Services"), and upstreams'
// aliases that lead to registry names.
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class AliasTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    be_in("shop");
    load(R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api, namespace: shop }
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: hidden, namespace: secret }
spec: { hosts: [hidden.example.org], addresses: [10.0.0.66], resolution: STATIC, exportTo: ["."] }
)");
    alias("plain", "www.example.org");
    alias("to-web", "web.shop.svc.cluster.local");
    alias("to-alias", "to-web.shop.svc.cluster.local");
    alias("to-missing", "missing.shop.svc.cluster.local");
    alias("to-entry", "API.example.org.");
    alias("to-hidden", "hidden.example.org");
    alias("to-short", "web.shop");
    alias("self", "self.shop.svc.cluster.local");
    alias("ping", "pong.shop.svc.cluster.local");
    alias("pong", "ping.shop.svc.cluster.local");
    alias("out", "back.example.org");
    upstream_.replies["www.example.org. A"] = {.answer = {"www.example.org. 60 A 192.0.2.1"}};
    upstream_.replies["www.example.org. TXT"] = {.answer = {"www.example.org. 60 TXT hello"}};
    upstream_.replies["www.example.org. AAAA"] = {
        .authority = {"example.org. 30 SOA ns.example.org."}};
  }
  void alias(const std::string& name, const std::string& target) {
    load("apiVersion: v1\nkind: Service\nmetadata: { name: " + name + ", namespace: shop }\n" +
         "spec: { type: ExternalName, externalName: " + target + " }\n");
  }
};

TEST_F(AliasTest, AliasOutOfTheMeshIsItsCnameAndWhatTheUpstreamHas) {
  EXPECT_EQ(
      ask_through("plain.shop.svc.cluster.local. A"),
      "plain.shop.svc.cluster.local. 5 CNAME www.example.org., www.example.org. 60 A 192.0.2.1");
  EXPECT_EQ(upstream_.asked, std::vector<std::string>{"www.example.org. A"});
  EXPECT_EQ(ask_through("plain.shop. A"),
            "plain.shop. 5 CNAME www.example.org., www.example.org. 60 A 192.0.2.1");
  EXPECT_EQ(
      ask_through("plain.shop.svc.cluster.local. TXT"),
      "plain.shop.svc.cluster.local. 5 CNAME www.example.org., www.example.org. 60 TXT \"hello\"");
}

TEST_F(AliasTest, UpstreamChainFollowsOurs) {
  upstream_.replies["www.example.org. A"] = {
      .answer = {"www.example.org. 60 CNAME cdn.example.net.", "cdn.example.net. 20 A 192.0.2.9"}};
  EXPECT_EQ(ask_through("plain.shop. A"),
            "plain.shop. 5 CNAME www.example.org., www.example.org. 60 CNAME cdn.example.net., "
            "cdn.example.net. 20 A 192.0.2.9");
}

TEST_F(AliasTest, CachedTargetNeedsNoUpstream) {
  upstream_.cached = {"www.example.org. A"};
  EXPECT_EQ(ask("plain.shop. A"),
            "plain.shop. 5 CNAME www.example.org., www.example.org. 60 A 192.0.2.1");
  EXPECT_TRUE(upstream_.asked.empty());
}

TEST_F(AliasTest, QueryForTheAliasGetsOnlyTheAlias) {
  EXPECT_EQ(ask("plain.shop. CNAME"), "plain.shop. 5 CNAME www.example.org.");
  EXPECT_EQ(ask("plain.shop. ANY"), "plain.shop. 5 CNAME www.example.org.");
  EXPECT_TRUE(upstream_.asked.empty());
}

TEST_F(AliasTest, NegativeTargetKeepsCnameRcodeAndSoa) {
  EXPECT_EQ(ask_through("plain.shop. AAAA"),
            "plain.shop. 5 CNAME www.example.org., @ example.org. SOA");
  alias("gone", "gone.example.org");
  EXPECT_EQ(ask_through("gone.shop. A"), "NXDOMAIN, gone.shop. 5 CNAME gone.example.org., @ . SOA");
}

TEST_F(AliasTest, FailedTargetIsServfailWithoutAnyRecord) {
  upstream_.replies["www.example.org. A"].rcode = wire::Rcode::ServFail;
  EXPECT_EQ(ask_through("plain.shop. A"), "not aa, SERVFAIL, EDE 22");
}

TEST_F(AliasTest, AliasIntoTheRegistryIsAnsweredFromItAlone) {
  EXPECT_EQ(ask("to-web.shop.svc.cluster.local. A"),
            "to-web.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local., "
            "web.shop.svc.cluster.local. 5 A 10.96.0.1");
  EXPECT_EQ(ask("to-alias.shop.svc.cluster.local. A"),
            "to-alias.shop.svc.cluster.local. 5 CNAME to-web.shop.svc.cluster.local., "
            "to-web.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local., "
            "web.shop.svc.cluster.local. 5 A 10.96.0.1");
  EXPECT_EQ(
      ask("to-web.shop.svc.cluster.local. AAAA"),
      "to-web.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local., @ cluster.local. SOA");
  EXPECT_EQ(ask("to-missing.shop.svc.cluster.local. A"),
            "NXDOMAIN, to-missing.shop.svc.cluster.local. 5 CNAME missing.shop.svc.cluster.local., "
            "@ cluster.local. SOA");
  EXPECT_EQ(ask("to-entry.shop. A"),
            "to-entry.shop. 5 CNAME api.example.org., api.example.org. 30 A 10.0.0.7");
}

TEST_F(AliasTest, AliasOpensNothingThatTheClientMayNotSee) {
  EXPECT_EQ(ask("to-hidden.shop. A"), "FORWARD hidden.example.org. A");
}

TEST_F(AliasTest, TargetIsAnAbsoluteName) {
  EXPECT_EQ(ask("to-short.shop. A"), "FORWARD web.shop. A");
}

TEST_F(AliasTest, NoNamesLieBelowAnAlias) {
  EXPECT_EQ(ask("_http._tcp.plain.shop.svc.cluster.local. SRV"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(ask("x.plain.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
}

TEST_F(AliasTest, LoopsEndInServfail) {
  upstream_.replies["back.example.org. A"] = {
      .answer = {"back.example.org. 60 CNAME out.shop.svc.cluster.local."}};
  for (const char* question : {"self.shop. A", "ping.shop. A", "pong.shop. AAAA", "out.shop. A"})
    EXPECT_EQ(ask_through(question), "not aa, SERVFAIL, EDE 0") << question;
}

TEST_F(AliasTest, ForwardedChainThatReachesTheRegistryGoesOnThere) {
  upstream_.replies["www.example.net. A"] = {
      .answer = {"www.example.net. 60 CNAME api.example.org.",
                 "api.example.org. 60 A 203.0.113.66"}};
  EXPECT_EQ(ask_through("www.example.net. A"),
            "not aa, www.example.net. 60 CNAME api.example.org., api.example.org. 30 A 10.0.0.7");
  upstream_.cached = {"www.example.net. A"};
  EXPECT_EQ(ask("WWW.example.net. A"),
            "not aa, WWW.example.net. 60 CNAME api.example.org., api.example.org. 30 A 10.0.0.7");
  // of a host that this client may not see the upstream's word counts
  upstream_.replies["x.example.net. A"] = {.answer = {"x.example.net. 60 CNAME hidden.example.org.",
                                                      "hidden.example.org. 60 A 192.0.2.3"}};
  EXPECT_EQ(
      ask_through("x.example.net. A"),
      "not aa, x.example.net. 60 CNAME hidden.example.org., hidden.example.org. 60 A 192.0.2.3");
}

TEST_F(AliasTest, ForwardedChainDoesNotReachShortNames) {
  upstream_.replies["www.example.net. A"] = {
      .answer = {"www.example.net. 60 CNAME web.", "web. 60 A 192.0.2.66"}};
  EXPECT_EQ(ask_through("www.example.net. A"),
            "not aa, www.example.net. 60 CNAME web., web. 60 A 192.0.2.66");
}

TEST_F(AliasTest, RegistryThatChangesMeanwhileCounts) {
  EXPECT_EQ(ask("out.shop. A"), "FORWARD back.example.org. A");
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: late, namespace: shop }
spec: { hosts: [target.example.org], addresses: [10.0.0.9], resolution: STATIC }
)");
  publish();
  upstream_.replies["back.example.org. A"] = {
      .answer = {"back.example.org. 60 CNAME target.example.org.",
                 "target.example.org. 60 A 192.0.2.4"}};
  upstream_.settle();
  EXPECT_EQ(summary(replies_.last),
            "out.shop. 5 CNAME back.example.org., back.example.org. 60 CNAME target.example.org., "
            "target.example.org. 30 A 10.0.0.9");
}

}  // namespace
}  // namespace meshdns::dnsd
