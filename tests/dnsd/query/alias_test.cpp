// SPDX-License-Identifier: Apache-2.0
// Aliases and a registry that changes while the upstream is asked; tests/scenarios/alias has all
// other rules (docs/semantics-kubernetes.md, "ExternalName Services").
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

using AliasTest = QueryFixture;

TEST_F(AliasTest, RegistryThatChangesMeanwhileCounts) {
  be_authority();
  be_in("shop");
  load(R"(
Service shop/out
spec: { type: ExternalName, externalName: back.example.org }
)");
  EXPECT_EQ(ask("out.shop. A"), "FORWARD back.example.org. A");
  load(R"(
ServiceEntry shop/late
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

// RFC 1034, section 4.3.2, step 3a.
TEST_F(AliasTest, AnAliasAloneIsFollowed) {
  upstream_.replies["a.example.org. A"] = {.answer = {"a.example.org. 60 CNAME b.example.net."}};
  upstream_.replies["b.example.net. A"] = {.answer = {"b.example.net. 60 CNAME c.example.net."}};
  upstream_.replies["c.example.net. A"] = {.answer = {"c.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask("a.example.org. A"), "FORWARD");
  upstream_.settle();
  EXPECT_EQ(
      summary(replies_.last),
      "not aa, a.example.org. 60 CNAME b.example.net., b.example.net. 60 CNAME c.example.net., "
      "c.example.net. 60 A 192.0.2.1");
  upstream_.cached = {"a.example.org. A", "b.example.net. A", "c.example.net. A"};
  EXPECT_EQ(
      ask("a.example.org. A"),
      "not aa, a.example.org. 60 CNAME b.example.net., b.example.net. 60 CNAME c.example.net., "
      "c.example.net. 60 A 192.0.2.1");
}

TEST_F(AliasTest, TheServersOfAZoneAnswerForTheirNamesBehindAliases) {
  upstream_.zones = {"corp.example."};
  upstream_.replies["www.example.org. A"] = {
      .answer = {"www.example.org. 60 CNAME db.corp.example.",
                 "db.corp.example. 60 CNAME x.example.org.", "x.example.org. 60 A 203.0.113.9"}};
  upstream_.replies["db.corp.example. A"] = {.answer = {"db.corp.example. 60 A 10.1.2.3"}};
  EXPECT_EQ(ask("www.example.org. A"), "FORWARD");
  upstream_.settle();
  EXPECT_EQ(summary(replies_.last),
            "not aa, www.example.org. 60 CNAME db.corp.example., db.corp.example. 60 A 10.1.2.3");
  // Their own word on names outside counts, unless they deny them.
  upstream_.replies["db.corp.example. A"] = {
      .answer = {"db.corp.example. 60 CNAME y.example.org.", "y.example.org. 60 A 10.1.2.4"}};
  EXPECT_EQ(ask("db.corp.example. A"), "FORWARD");
  upstream_.settle();
  EXPECT_EQ(summary(replies_.last),
            "not aa, db.corp.example. 60 CNAME y.example.org., y.example.org. 60 A 10.1.2.4");
  upstream_.replies["db.corp.example. A"] = {.rcode = wire::Rcode::NxDomain,
                                             .answer = {"db.corp.example. 60 CNAME y.example.org."},
                                             .authority = {"example.org. 60 SOA ns.example.org."}};
  upstream_.replies["y.example.org. A"] = {.answer = {"y.example.org. 60 A 192.0.2.5"}};
  EXPECT_EQ(ask("db.corp.example. A"), "FORWARD");
  upstream_.settle();
  EXPECT_EQ(summary(replies_.last),
            "not aa, db.corp.example. 60 CNAME y.example.org., y.example.org. 60 A 192.0.2.5");
}

class ChainTest : public AliasTest {
 protected:
  // A chain of so many aliases, each in a reply of its own, and what becomes of it.
  std::string follow(int aliases) {
    upstream_.replies.clear();
    upstream_.asked.clear();
    const auto name = [](int i) { return "n" + std::to_string(i) + ".example.org."; };
    for (int i = 0; i < aliases; ++i)
      upstream_.replies[name(i) + " A"] = {.answer = {name(i) + " 60 CNAME " + name(i + 1)}};
    upstream_.replies[name(aliases) + " A"] = {.answer = {name(aliases) + " 60 A 192.0.2.1"}};
    EXPECT_EQ(ask("n0.example.org. A"), "FORWARD");
    upstream_.settle();
    return summary(replies_.last);
  }
};

TEST_F(ChainTest, OfTwelveIsFollowedAndOfThirteenIsNot) {
  EXPECT_THAT(follow(12), ::testing::EndsWith("n12.example.org. 60 A 192.0.2.1"));
  EXPECT_THAT(follow(13), ::testing::HasSubstr("SERVFAIL"));
}

TEST_F(ChainTest, TakesSixteenPacketsAtMost) {
  upstream_.packets = 5;
  EXPECT_THAT(follow(3), ::testing::EndsWith("n3.example.org. 60 A 192.0.2.1"));
  ASSERT_EQ(upstream_.requests.size(), 4U);
  EXPECT_EQ(upstream_.requests[0].max_packets, 16U);
  EXPECT_EQ(upstream_.requests[3].max_packets, 1U);
  EXPECT_THAT(follow(4), ::testing::HasSubstr("SERVFAIL"));
  EXPECT_EQ(upstream_.asked.size(), 4U);
}

TEST_F(ChainTest, OfManyAliasesInOneReplyIsOneLink) {
  UpstreamReply reply;
  const auto name = [](int i) { return "n" + std::to_string(i) + ".example.org."; };
  for (int i = 0; i < 20; ++i) reply.answer.push_back(name(i) + " 60 CNAME " + name(i + 1));
  upstream_.replies["n0.example.org. A"] = reply;
  upstream_.replies["n20.example.org. A"] = {.answer = {"n20.example.org. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask("n0.example.org. A"), "FORWARD");
  upstream_.settle();
  EXPECT_THAT(summary(replies_.last),
              ::testing::EndsWith(
                  "n19.example.org. 60 CNAME n20.example.org., n20.example.org. 60 A 192.0.2.1"));
}

}  // namespace
}  // namespace meshdns::dnsd
