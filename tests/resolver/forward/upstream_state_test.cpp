// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream_state.hpp"

#include <gtest/gtest.h>

#include "dnsd/config/config.hpp"

namespace meshdns::dnsd::test {
namespace {

class Listener : public ForwardListener {
 public:
  void on_upstream_down(std::string_view, std::string_view reason) override {
    events += "down(" + std::string(reason) + ") ";
  }
  void on_upstream_up(std::string_view) override { events += "up "; }
  void on_upstream_failing(std::string_view, std::string_view rcode) override {
    events += "failing(" + std::string(rcode) + ") ";
  }
  void on_upstream_working(std::string_view) override { events += "working "; }
  void on_loop_found(std::string_view) override { events += "loop "; }
  void on_loop_gone(std::string_view) override { events += "noloop "; }
  void on_upstream_learned(std::string_view, std::string_view) override { events += "learned "; }
  std::string events;
};

class UpstreamStateTest : public ::testing::Test {
 protected:
  void judge(wire::Rcode rcode, int name, Millis now) {
    state_.judge_rcode(rcode, std::to_string(name), now);
  }

  Listener listener_;
  UpstreamState state_{"192.0.2.53:53", listener_};
};

TEST_F(UpstreamStateTest, WaitsByWhatWasMeasured) {
  EXPECT_EQ(state_.retry_after(), 300u);
  for (int i = 0; i < 50; ++i) state_.note_reply(1'000, 2'000);
  EXPECT_EQ(state_.retry_after(), 100u);
  for (int i = 0; i < 50; ++i) state_.note_reply(1'000, 400'000);
  EXPECT_GE(state_.retry_after(), 400u);
  for (int i = 0; i < 50; ++i) state_.note_reply(1'000, 5'000'000);
  EXPECT_EQ(state_.retry_after(), 1'500u);
}

TEST_F(UpstreamStateTest, IsDoubtedAfterTwoLossesAndDownAfterTwoLostProbes) {
  state_.note_timeout(1'000);
  EXPECT_EQ(state_.health(), Health::Up);
  EXPECT_FALSE(state_.claim_probe(1'500));
  state_.note_timeout(1'100);
  EXPECT_EQ(state_.health(), Health::Doubtful);
  EXPECT_TRUE(state_.claim_probe(1'500));
  EXPECT_FALSE(state_.claim_probe(1'500)) << "one worker at a time";
  state_.note_probe_lost(2'000, "no answer in time");
  EXPECT_EQ(state_.health(), Health::Doubtful) << "one may be lost";
  EXPECT_FALSE(state_.claim_probe(2'200));
  EXPECT_TRUE(state_.claim_probe(2'250));
  state_.note_probe_lost(2'250, "no answer in time");
  EXPECT_EQ(state_.health(), Health::Down);
  EXPECT_TRUE(state_.claim_probe(2'950));
  EXPECT_TRUE(state_.note_reply(3'000, 1'000));
  EXPECT_EQ(state_.health(), Health::Up);
  EXPECT_EQ(listener_.events, "down(no answer in time) up ");
}

TEST_F(UpstreamStateTest, FailsAfterErrorsForFiveNamesUntilItAnswersAnythingElse) {
  for (int name = 1; name <= 4; ++name) judge(wire::Rcode::Refused, name, 20'000);
  EXPECT_EQ(state_.status(20'000).failing_with, "");
  judge(wire::Rcode::ServFail, 5, 20'000);
  EXPECT_EQ(state_.status(20'000).failing_with, "SERVFAIL");
  EXPECT_EQ(health_name(state_.status(20'000)), "failing");
  EXPECT_EQ(state_.status(20'000).last_error, "answers nothing but SERVFAIL");
  judge(wire::Rcode::Refused, 6, 20'000);
  judge(wire::Rcode::NxDomain, 7, 20'000);
  EXPECT_EQ(state_.status(20'000).failing_with, "");
  EXPECT_EQ(listener_.events, "failing(SERVFAIL) working ");
}

TEST_F(UpstreamStateTest, DoesNotFailBecauseOfFewBadNames) {
  for (int i = 0; i < 100; ++i) judge(wire::Rcode::ServFail, i % 4, 20'000);
  EXPECT_EQ(listener_.events, "");
}

TEST_F(UpstreamStateTest, DoesNotFailWithinTenSecondsOfAnAnswer) {
  judge(wire::Rcode::NoError, 1, 20'000);
  for (int name = 1; name < 50; ++name) judge(wire::Rcode::ServFail, name, 29'999);
  EXPECT_EQ(listener_.events, "");
  judge(wire::Rcode::ServFail, 50, 30'000);
  EXPECT_EQ(listener_.events, "failing(SERVFAIL) ");
}

// A server that answers one question in 12 s, and refuses all others.
TEST_F(UpstreamStateTest, TellsLessAndLessOftenThatItFails) {
  int name = 0;
  const auto fail_until = [&](Millis begin, Millis end) {
    for (Millis now = begin; now < end; now += 100) judge(wire::Rcode::Refused, ++name, now);
  };
  for (Millis now = 20'000; now < 500'000; now += 12'000) {
    judge(wire::Rcode::NoError, ++name, now);
    fail_until(now, now + 12'000);
  }
  EXPECT_EQ(listener_.events, "failing(REFUSED) working ") << "20 s are needed now";
  judge(wire::Rcode::NoError, ++name, 500'000);
  fail_until(500'000, 525'000);
  judge(wire::Rcode::NoError, ++name, 525'000);
  fail_until(525'000, 560'000);
  EXPECT_EQ(listener_.events, "failing(REFUSED) working failing(REFUSED) working ") << "40 s";
  constexpr Millis kCalm = 4'200'000;
  judge(wire::Rcode::NoError, ++name, kCalm);
  fail_until(kCalm, kCalm + 11'000);
  EXPECT_EQ(listener_.events, "failing(REFUSED) working failing(REFUSED) working failing(REFUSED) ")
      << "after a calm, 10 s again";
}

TEST_F(UpstreamStateTest, OneBadNameDoesNotMakeItDoubtful) {
  for (Millis now = 1'000; now < 60'000; now += 1'000) {
    state_.note_reply(now + 500, 1'000);  // others are answered meanwhile
    for (int tries = 0; tries < 3; ++tries) state_.note_timeout(now);
  }
  EXPECT_EQ(state_.health(), Health::Up);
}

TEST_F(UpstreamStateTest, LossesCountInARowOnly) {
  for (Millis now = 1'000; now < 60'000; now += 1'000) {
    state_.note_timeout(now);  // a packet is lost, and the next one answered
    EXPECT_EQ(state_.health(), Health::Up) << now;
    state_.note_reply(now + 100, 1'000);
  }
}

TEST_F(UpstreamStateTest, LostProbesOfAnEarlierDoubtDoNotCount) {
  const auto doubt = [&](Millis now) {
    for (int i = 0; i < 2; ++i) state_.note_timeout(now);
    EXPECT_EQ(state_.health(), Health::Doubtful);
    state_.note_probe_lost(now, "x");
  };
  doubt(10'000);
  state_.note_reply(11'000, 1'000);
  doubt(20'000);
  EXPECT_EQ(state_.health(), Health::Doubtful) << "one lost probe since";
}

TEST_F(UpstreamStateTest, IsNotDownWithinASecondOfAnyAnswer) {
  state_.note_reply(9'500, 1'000);
  for (int i = 0; i < 2; ++i) state_.note_timeout(10'000);
  for (int i = 0; i < 3; ++i) state_.note_probe_lost(10'400, "x");
  EXPECT_EQ(state_.health(), Health::Doubtful);
  state_.note_probe_lost(10'500, "x");
  EXPECT_EQ(state_.health(), Health::Down);
}

TEST_F(UpstreamStateTest, FailedNamesOfBeforeAnAnswerDoNotCount) {
  for (int name = 1; name <= 4; ++name) judge(wire::Rcode::Refused, name, 20'000);
  judge(wire::Rcode::NoError, 5, 20'000);
  judge(wire::Rcode::Refused, 6, 40'000);
  EXPECT_EQ(listener_.events, "");
}

TEST_F(UpstreamStateTest, ProbesOftenEnoughToBeBackWithinASecond) {
  state_.note_timeout(1'000);
  state_.note_timeout(1'000);
  Millis now = 1'000;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(state_.claim_probe(now));
    state_.note_probe_lost(now, "x");
    Millis next = now;
    while (!state_.claim_probe(next)) next += 10;
    EXPECT_LE(next - now, 700u);
    state_.note_probe_lost(next, "x");
    now = next + 700;
  }
}

TEST_F(UpstreamStateTest, LearnsCaseAndEdnsForAWhile) {
  state_.note_case_lost(1'000);
  EXPECT_TRUE(state_.keeps_case(1'000));
  state_.note_case_kept();
  state_.note_case_lost(1'000);
  EXPECT_TRUE(state_.keeps_case(1'000));
  state_.note_case_lost(1'000);
  EXPECT_FALSE(state_.keeps_case(1'000));
  EXPECT_TRUE(state_.keeps_case(1'000 + 3'600'000));
  state_.note_no_edns("a", 1'000);
  EXPECT_TRUE(state_.edns().is_used(1'000));
  state_.note_no_edns("b", 1'000);
  EXPECT_FALSE(state_.edns().is_used(1'000 + 899'999));
  EXPECT_TRUE(state_.edns().is_used(1'000 + 900'000));
}

TEST_F(UpstreamStateTest, AFeatureIsLeftOutAfterSeveralNamesAndReportedOnce) {
  ServerFeature feature;
  EXPECT_FALSE(feature.note_failure("a", 1'000));
  EXPECT_FALSE(feature.note_failure("a", 1'000));
  EXPECT_TRUE(feature.is_used(1'000)) << "one name is a fault of that name";
  EXPECT_TRUE(feature.note_failure("b", 1'000));
  EXPECT_FALSE(feature.is_used(900'999));
  EXPECT_TRUE(feature.is_used(901'000)) << "perhaps the server is another one by now";
  feature.note_failure("a", 901'000);
  EXPECT_FALSE(feature.note_failure("b", 901'000)) << "no news";
  EXPECT_FALSE(feature.is_used(901'000));

  feature.note_success(2'000'000);
  feature.note_failure("a", 2'000'000);
  feature.note_failure("b", 2'899'999);
  EXPECT_TRUE(feature.is_used(2'899'999)) << "it has worked in the last 15 minutes";
  feature.note_failure("a", 2'900'000);
  EXPECT_TRUE(feature.note_failure("b", 2'900'000));
}

TEST_F(UpstreamStateTest, FailsWithAnyErrorAlone) {
  for (int name = 1; name <= 3; ++name) judge(wire::Rcode::FormErr, name, 20'000);
  for (int name = 4; name <= 5; ++name) judge(wire::Rcode::NotImp, name, 20'000);
  EXPECT_EQ(listener_.events, "failing(NOTIMP) ");
}

TEST_F(UpstreamStateTest, FindsAndLosesALoop) {
  EXPECT_TRUE(state_.claim_loop_check(1'000));
  state_.note_came_back(1'001);
  state_.note_loop_check_over();
  EXPECT_TRUE(state_.is_looped());
  EXPECT_EQ(health_name(state_.status(2'000)), "loop");
  EXPECT_FALSE(state_.claim_loop_check(2'000));
  EXPECT_TRUE(state_.claim_loop_check(12'000));
  state_.note_loop_check_over();
  EXPECT_FALSE(state_.is_looped());
  EXPECT_EQ(health_name(state_.status(12'000)), "up");
  EXPECT_EQ(listener_.events, "loop noloop ");
}

TEST(UpstreamStatesTest, KeepsWhatIsKnownAsLongAsSomebodyUsesIt) {
  Listener listener;
  UpstreamStates states(listener);
  const UpstreamServer server = *parse_upstream_server("192.0.2.53");
  auto first = states.state_of(server);
  EXPECT_EQ(states.state_of(server), first);
  EXPECT_EQ(states.status(0).size(), 1u);
  EXPECT_TRUE(states.note_came_back(first->loop_label(), 0));
  EXPECT_FALSE(states.note_came_back("0123456789abcdef0123456789abcdef", 0));
  first.reset();
  EXPECT_TRUE(states.status(0).empty());
}

}  // namespace
}  // namespace meshdns::dnsd::test
