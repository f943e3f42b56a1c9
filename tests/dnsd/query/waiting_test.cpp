// SPDX-License-Identifier: Apache-2.0
// Queries that are answered later: sets without addresses yet, upstreams, and their limits.
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class WaitingTest : public QueryFixture {
 protected:
  void SetUp() override {
    load(R"(
ServiceEntry /slow
spec: { hosts: [slow.example.org], ports: [{ number: 80, name: http, protocol: HTTP }], resolution: DNS, endpoints: [{ address: backend.example.net }] }
)");
  }
};

TEST_F(WaitingTest, QueryBeforeTheFirstResultWaitsForIt) {
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  EXPECT_EQ(handler().in_flight(), 1U);
  handler().on_snapshot();  // nothing new
  EXPECT_TRUE(replies_.sent.empty());
  registry_.resolve("backend.example.net", {"192.0.2.1"});
  publish();
  handler().on_snapshot();
  ASSERT_EQ(replies_.sent.size(), 1U);
  EXPECT_EQ(summary(replies_.last), "slow.example.org. 5 A 192.0.2.1");
  EXPECT_EQ(handler().in_flight(), 0U);
  EXPECT_FALSE(clock_.is_armed());
}

TEST_F(WaitingTest, WaitEndsWithTheTimeout) {
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  clock_.advance(1999);
  EXPECT_TRUE(replies_.sent.empty());
  clock_.advance(1);
  ASSERT_EQ(replies_.sent.size(), 1U);
  EXPECT_EQ(summary(replies_.last), "not aa, SERVFAIL, EDE 22");
  EXPECT_EQ(handler().in_flight(), 0U);
}

class IdentityLog final : public QueryLog {
 public:
  void on_answer(const AnsweredQuery& answered) override {
    identities.emplace_back(answered.identity);
  }
  std::vector<std::string> identities;
};

// Another query, of a client that is refused, comes before the timeout.
TEST_F(WaitingTest, LogHasTheClientOfAQueryThatTimedOut) {
  IdentityLog log;
  handler().set_log(&log);
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  ask("slow.example.org. A", {.from = "192.0.2.7"});
  clock_.advance(2000);
  EXPECT_EQ(log.identities, (std::vector<std::string>{"", "client.default"}));
}

TEST_F(WaitingTest, DeadlineIsNotMovedBySnapshots) {
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  clock_.advance(1500);
  handler().on_snapshot();
  clock_.advance(500);
  EXPECT_EQ(replies_.sent.size(), 1U);
}

TEST_F(WaitingTest, SetWhoseNamesAllFailIsServfail) {
  registry_.resolve("backend.example.net", {}, registry::ResolvedName::State::Failed);
  EXPECT_EQ(ask("slow.example.org. A"), "not aa, SERVFAIL, EDE 22");
}

TEST_F(WaitingTest, AddressesThatTheClientDoesNotTakeNeedNoWait) {
  registry::ClientIdentity identity;
  identity.ipv6 = false;
  registry_.be(identity);
  EXPECT_EQ(ask("slow.example.org. AAAA"), "NODATA slow.example.org.");
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  registry_.resolve("backend.example.net", {}, registry::ResolvedName::State::Failed);
  EXPECT_EQ(ask("slow.example.org. AAAA"), "NODATA slow.example.org.");
}

TEST_F(WaitingTest, OtherTypesNeedNoAddresses) {
  EXPECT_EQ(ask("slow.example.org. HTTPS"), "NODATA slow.example.org.");
  EXPECT_EQ(ask("slow.example.org. MX"), "FORWARD");
}

TEST_F(WaitingTest, ForwardedAnswerIsSentToWhoAsked) {
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("wWw.example.net. A"), "not aa, wWw.example.net. 60 A 192.0.2.1");
  EXPECT_EQ(ask_through("missing.example.net. A"), "not aa, NXDOMAIN, @ . SOA");
  upstream_.replies["broken.example.net. A"].rcode = wire::Rcode::ServFail;
  EXPECT_EQ(ask_through("broken.example.net. A"), "not aa, SERVFAIL, EDE 22");
}

// Each name is unknown when it is asked for, and comes before the upstream's reply does.
TEST_F(WaitingTest, AHostThatComesWhileTheUpstreamIsAskedIsAnswered) {
  settings_.dns64 = *IpPrefix::parse("64:ff9b::/96");
  for (const char* const type : {"A", "AAAA"})
    for (const bool is_denied : {true, false}) {
      const std::string name =
          to_lower(std::string("late-") + type) + (is_denied ? "-denied" : "-alias");
      const std::string asked = name + ".example.org. " + type;
      EXPECT_EQ(ask(asked), "FORWARD");
      load(
          "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
          "metadata: { name: " +
          name + " }\nspec: { hosts: [" + name +
          ".example.org], addresses: [10.0.0.7, \"2001:db8::7\"], resolution: STATIC }\n");
      publish();
      if (!is_denied) {
        upstream_.replies[asked] = {
            .answer = {name + ".example.org. 60 CNAME elsewhere.example.net."}};
        upstream_.replies["elsewhere.example.net. " + std::string(type)] = {
            .answer = {}, .authority = {"example.net. 30 SOA ns.example.net."}};
      }
      upstream_.settle();
      const std::string known = ask(asked);
      EXPECT_EQ(summary(replies_.last), known) << "the answer to the next question";
      EXPECT_EQ(known.find("FORWARD"), std::string::npos) << asked;
    }
}

// RFC 6147; a reload comes between the two questions that DNS64 asks.
TEST_F(WaitingTest, Dns64OfAReloadHoldsForQueriesThatWait) {
  for (const bool stays : {true, false}) {
    settings_.dns64 = *IpPrefix::parse("64:ff9b::/96");
    handler().reconfigure(settings_);
    const std::string name = stays ? "on.example.net." : "off.example.net.";
    upstream_.replies[name + " AAAA"] = {.answer = {},
                                         .authority = {"example.net. 30 SOA ns.example.net."}};
    upstream_.replies[name + " A"] = {.answer = {name + " 60 A 192.0.2.33"}};
    EXPECT_EQ(ask(name + " AAAA"), "FORWARD");
    upstream_.settle_one();
    ASSERT_EQ(upstream_.asked.back(), name + " A");
    if (!stays) {
      settings_.dns64.reset();
      handler().reconfigure(settings_);
    }
    upstream_.settle();
    EXPECT_EQ(summary(replies_.last), stays ? "not aa, " + name + " 30 AAAA 64:ff9b::c000:221"
                                            : "not aa, @ example.net. SOA");
  }
}

TEST_F(WaitingTest, CachedAnswerNeedsNoWait) {
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  upstream_.cached = {"www.example.net. A"};
  EXPECT_EQ(ask("www.example.net. A"), "not aa, www.example.net. 60 A 192.0.2.1");
  upstream_.cached_freshness = Freshness::Stale;
  EXPECT_EQ(ask("www.example.net. A"), "not aa, www.example.net. 30 A 192.0.2.1, EDE 3");
}

TEST_F(WaitingTest, OneClientCannotTakeAllPlaces) {
  for (std::size_t i = 0; i < QueryHandler::kMaxWaitingPerClient; ++i)
    ASSERT_EQ(ask("www.example.net. A", {.from = "10.0.0.1"}), "FORWARD");
  EXPECT_EQ(ask("www.example.net. A", {.from = "10.0.0.1"}), "not aa, SERVFAIL, EDE 0");
  EXPECT_EQ(ask("www.example.net. A", {.from = "10.0.0.2"}), "FORWARD");
  upstream_.settle();
  EXPECT_EQ(handler().in_flight(), 0U);
  EXPECT_EQ(ask("www.example.net. A", {.from = "10.0.0.1"}), "FORWARD");
}

TEST_F(WaitingTest, NothingIsSentAfterTheStop) {
  EXPECT_EQ(ask("www.example.net. A"), "FORWARD");
  EXPECT_EQ(ask("slow.example.org. A"), "WAIT");
  handler().on_stop();
  EXPECT_TRUE(upstream_.closed);
  EXPECT_TRUE(replies_.sent.empty());
  EXPECT_EQ(handler().in_flight(), 0U);
}

TEST(LoopClockTest, CallsOnceAtItsTimeAndCanBeClosed) {
  uv_loop_t loop;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  int calls = 0;
  {
    LoopClock clock(&loop);
    clock.call_at(clock.now() + 1'000'000, [&] { calls += 100; });  // replaced
    clock.call_at(clock.now() + 1, [&] { ++calls; });
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT_EQ(calls, 1);
    clock.call_at(clock.now(), [&] { calls += 100; });
    clock.close();
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace meshdns::dnsd
