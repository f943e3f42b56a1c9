// SPDX-License-Identifier: Apache-2.0
// The last of several that ends its owner: each question is answered exactly once, in whatever
// order connections, questions, upstreams and the forwarder end.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "tests/resolver/forward/forwarder_fixture.hpp"

namespace meshdns::dnsd::test {
namespace {

class UpstreamEndTest : public ForwarderTest {
 protected:
  void ask_later(const std::string& name) {
    ++asked_[name];
    resolve(name, [this, name](const Outcome& outcome) {
      ++answered_[name];
      last_ = outcome.message;
    });
  }
  bool run_until_all_are_answered() {
    return loop_.run_until([this] { return answered_ == asked_; });
  }
  static std::size_t over_tcp(const FakeUpstream& upstream) {
    return static_cast<std::size_t>(std::ranges::count(upstream.received, true, &Received::tcp));
  }

  std::map<std::string, int> asked_;
  std::map<std::string, int> answered_;
  MessageRef last_;
};

class ConnectionEndTest : public UpstreamEndTest,
                          public ::testing::WithParamInterface<FakeUpstream::End> {};

TEST_P(ConnectionEndTest, AnswersAQuestionOnceWhenItsConnectionEndsUnderTwoTries) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenHang);
  config_.timeout = kTimeout;
  start();
  ask_later("www.example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(upstream) >= 2; }));
  ASSERT_EQ(upstream.connections(), 1u) << "two tries of one question on one connection";
  upstream.behave(Behaviour::TruncateNoTcp);
  upstream.end_connections(GetParam());
  ASSERT_TRUE(run_until_all_are_answered());
  EXPECT_EQ(last_->kind(), MessageKind::Failure);
  upstream.behave(Behaviour::Answer);
  EXPECT_EQ(ask("next.example.org.").outcome.message->kind(), MessageKind::Positive);
}

TEST_P(ConnectionEndTest, AnswersAllQuestionsOfAConnectionThatEnds) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenHang);
  add(Behaviour::TruncateThenHang);
  config_.timeout = kTimeout;
  start();
  for (int i = 0; i < 60; ++i) ask_later("n" + std::to_string(i) + ".example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(upstream) >= 100; }));
  for (const auto& each : upstreams_) {
    each->behave(Behaviour::TruncateNoTcp);
    each->end_connections(GetParam());
  }
  ASSERT_TRUE(run_until_all_are_answered());
}

// The second question's connection had served the first, so that it is asked once more on another.
TEST_P(ConnectionEndTest, AsksAgainWhenAConnectionThatHadServedEnds) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenTcp);
  config_.timeout = kTimeout;
  start();
  ask_later("first.example.org.");
  ASSERT_TRUE(run_until_all_are_answered());
  upstream.behave(Behaviour::TruncateThenHang);
  ask_later("second.example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(upstream) >= 3; }));
  upstream.end_connections(GetParam());
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(upstream) >= 5; }));
  EXPECT_GE(upstream.connections(), 2u);
  upstream.end_connections(GetParam());
  ASSERT_TRUE(run_until_all_are_answered());
}

TEST_P(ConnectionEndTest, EndsQuestionsToAnUpstreamThatAReloadHasReplaced) {
  FakeUpstream& old = add(Behaviour::TruncateThenHang);
  config_.timeout = kTimeout;
  start();
  for (int i = 0; i < 5; ++i) ask_later("n" + std::to_string(i) + ".example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(old) >= 8; }));
  config_.servers.clear();
  add();
  reconfigure(config_);
  old.behave(Behaviour::TruncateNoTcp);
  old.end_connections(GetParam());
  ASSERT_TRUE(run_until_all_are_answered());
  EXPECT_EQ(ask("next.example.org.").outcome.message->kind(), MessageKind::Positive);
}

INSTANTIATE_TEST_SUITE_P(Ends, ConnectionEndTest,
                         ::testing::Values(FakeUpstream::End::Close, FakeUpstream::End::Reset),
                         [](const auto& end) {
                           return end.param == FakeUpstream::End::Close ? "Close" : "Reset";
                         });

TEST_F(UpstreamEndTest, ClosesWithQuestionsOnConnectionsAndProbesUnderWay) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenHang);
  add(Behaviour::Dead);
  config_.policy = UpstreamPolicy::Parallel;
  config_.timeout = kTimeout;
  start();
  for (int i = 0; i < 10; ++i) ask_later("n" + std::to_string(i) + ".example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return over_tcp(upstream) >= 15; }));
  forwarder_->close();
  EXPECT_EQ(answered_, asked_);
  loop_.run_for(50);
  EXPECT_EQ(answered_, asked_);
}

TEST_F(UpstreamEndTest, AnswersEverybodyBeforeACloseFromACallbackReturns) {
  add(Behaviour::Slow);
  config_.timeout = kTimeout;
  start();
  int answered = 0;
  int answered_at_close = 0;
  resolve("www.example.org.", [&](const Outcome&) {
    ++answered;
    forwarder_->close();
    answered_at_close = answered;
  });
  for (int i = 0; i < 3; ++i) resolve("www.example.org.", [&](const Outcome&) { ++answered; });
  for (int i = 0; i < 3; ++i) resolve("b.example.org.", [&](const Outcome&) { ++answered; });
  ASSERT_TRUE(loop_.run_until([&] { return answered > 0; }));
  EXPECT_EQ(answered_at_close, 7);
  loop_.run_for(50);
  EXPECT_EQ(answered, 7);
}

TEST_F(UpstreamEndTest, AnswersAllOfOneQuestionBeforeACloseFromACallbackReturns) {
  add();
  start();
  int answered = 0;
  std::size_t left = 1;
  resolve("www.example.org.", [&](const Outcome&) {
    ++answered;
    forwarder_->close();
    left = forwarder_->pending();
  });
  resolve("www.example.org.", [&](const Outcome&) { ++answered; });
  ASSERT_TRUE(loop_.run_until([&] { return answered > 0; }));
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(left, 0u);
}

TEST_F(UpstreamEndTest, ACallbackMayAskTheSameAgain) {
  add(Behaviour::ServFail);
  start();
  int answered = 0;
  std::function<void(const Outcome&)> again = [&](const Outcome&) {
    if (++answered < 20) resolve("www.example.org.", again);
  };
  resolve("www.example.org.", again);
  ASSERT_TRUE(loop_.run_until([&] { return answered == 20; }));
}

TEST_F(UpstreamEndTest, ACallbackMayReplaceTheUpstreamThatAnswers) {
  FakeUpstream& old = add(Behaviour::TruncateThenTcp);
  start();
  UpstreamConfig other = config_;
  other.servers.clear();
  FakeUpstream& fresh = add();
  other.servers.push_back(fresh.server());
  config_.servers.pop_back();
  reconfigure(config_);
  std::size_t answered = 0;
  for (int i = 0; i < 30; ++i)
    resolve("n" + std::to_string(i) + ".example.org.", [&, i](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Positive);
      ++answered;
      reconfigure(i % 2 == 0 ? other : config_);
    });
  ASSERT_TRUE(loop_.run_until([&] { return answered == 30; }));
  EXPECT_GT(old.received.size(), 30u);
}

// Replies of all upstreams are there in the same turn; the first ends the exchanges of the others.
TEST_F(UpstreamEndTest, TheFirstOfManyRepliesOfOneTurnEndsTheOthers) {
  for (int i = 0; i < 8; ++i) add();
  config_.policy = UpstreamPolicy::Parallel;
  start();
  for (int i = 0; i < 20; ++i) ask_later("n" + std::to_string(i) + ".example.org.");
  ASSERT_TRUE(run_until_all_are_answered());
  EXPECT_TRUE(loop_.run_until([this] { return status().in_flight == 0; }));
}

}  // namespace
}  // namespace meshdns::dnsd::test
