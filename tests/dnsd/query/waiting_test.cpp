// SPDX-License-Identifier: Apache-2.0
// Queries that are answered later: sets without addresses yet, upstreams, and their limits.
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class WaitingTest : public QueryFixture {
 protected:
  void SetUp() override {
    load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: slow }
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
