// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/forwarder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "resolver/wire/name_text.hpp"
#include "tests/resolver/cache/messages.hpp"
#include "tests/resolver/forward/fake_upstream.hpp"
#include "tests/resolver/forward/forwarder_fixture.hpp"
#include "tests/resolver/forward/shortages.hpp"

namespace meshdns::dnsd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using wire::Rcode;

// One upstream of each kind alone, and what a client then gets.
struct Conduct {
  const char* name;
  Behaviour behaviour;
  const char* outcome;
  Millis within;  // what it takes beyond kAtOnce
};
void PrintTo(const Conduct& conduct, std::ostream* out) { *out << conduct.name; }

class ConductTest : public ForwarderTest, public ::testing::WithParamInterface<Conduct> {};

TEST_P(ConductTest, HasItsDesignedOutcome) {
  FakeUpstream& upstream = add(GetParam().behaviour);
  config_.timeout = kTimeout;
  start();
  const Answer answer = ask();
  EXPECT_THAT(answer.text, StartsWith(GetParam().outcome));
  EXPECT_LE(answer.took, GetParam().within + kAtOnce);
  EXPECT_THAT(answer.text, ::testing::Not(HasSubstr("203.0.113")));
  // And the upstream is as good as before for honest names.
  upstream.behave(Behaviour::Answer);
  const Answer next = ask("next.example.org.");
  EXPECT_THAT(next.text, StartsWith("NOERROR [next.example.org. 300 A 192.0.2.1]"));
  EXPECT_LE(next.took, kAtOnce);
}

INSTANTIATE_TEST_SUITE_P(
    Upstream, ConductTest,
    ::testing::Values(
        Conduct{"Answer", Behaviour::Answer, kTruth, 0},
        Conduct{"Dead", Behaviour::Dead, "SERVFAIL EDE 22", 4'000},
        Conduct{"Slow", Behaviour::Slow, kTruth, 600},
        Conduct{"WrongId", Behaviour::WrongId, kTruth, 0},
        Conduct{"WrongQuestion", Behaviour::WrongQuestion, kTruth, 0},
        Conduct{"WrongType", Behaviour::WrongType, kTruth, 0},
        Conduct{"WrongSource", Behaviour::WrongSource, kTruth, 0},
        Conduct{"NotAResponse", Behaviour::NotAResponse, kTruth, 0},
        Conduct{"WrongOpcode", Behaviour::WrongOpcode, kTruth, 0},
        Conduct{"Garbage", Behaviour::Garbage, kTruth, 0},
        Conduct{"WrongCookie", Behaviour::WrongCookie, kTruth, 0},
        Conduct{"BadCookie", Behaviour::BadCookie, kTruth, 0},
        Conduct{"BadCookieOverUdp", Behaviour::BadCookieOverUdp, kTruth, 0},
        Conduct{"Cut", Behaviour::Cut, "SERVFAIL EDE 2", 0},
        Conduct{"CutOverUdp", Behaviour::CutOverUdp, kTruth, 0},
        Conduct{"ForgedFlood", Behaviour::ForgedFlood, kTruth, 0},
        Conduct{"TruncateNoTcp", Behaviour::TruncateNoTcp, "SERVFAIL EDE 23", 0},
        Conduct{"TruncateCutOnce", Behaviour::TruncateCutOnce, kTruth, 0},
        Conduct{"ServFail", Behaviour::ServFail, "SERVFAIL", 0},
        Conduct{"Refused", Behaviour::Refused, "REFUSED", 0},
        Conduct{"NotImp", Behaviour::NotImp, "NOTIMP", 0},
        Conduct{"NxDomain", Behaviour::NxDomain, "NXDOMAIN", 0},
        Conduct{"NxDomainWithoutSoa", Behaviour::NxDomainWithoutSoa, "NXDOMAIN", 0},
        Conduct{"AliasLoop", Behaviour::AliasLoop, "SERVFAIL EDE 24", 0},
        Conduct{"TtlZero", Behaviour::TtlZero, "NOERROR [www.example.org. 0 A 192.0.2.1]", 0},
        Conduct{"TtlTopBit", Behaviour::TtlTopBit, "NOERROR [www.example.org. 0 A 192.0.2.1]", 0},
        Conduct{"LowerCase", Behaviour::LowerCase, kTruth, 0},
        Conduct{"FormErrOnEdns", Behaviour::FormErrOnEdns, kTruth, 0},
        Conduct{"BareFormErrOnEdns", Behaviour::BareFormErrOnEdns, kTruth, 0},
        Conduct{"FormErrWithOptOnEdns", Behaviour::FormErrWithOptOnEdns, kTruth, 0},
        Conduct{"FormErrOnCookie", Behaviour::FormErrOnCookie, kTruth, 0},
        Conduct{"NotImpOnCookie", Behaviour::NotImpOnCookie, kTruth, 0},
        Conduct{"RefusedOnCookie", Behaviour::RefusedOnCookie, kTruth, 0},
        Conduct{"BadVersOnCookie", Behaviour::BadVersOnCookie, kTruth, 0},
        Conduct{"FormErr", Behaviour::FormErr, "FORMERR", 0}),
    [](const auto& conduct) { return conduct.param.name; });

TEST_F(ForwarderTest, LeavesEdnsOutForNothingButAFormatErrorOfItsQuery) {
  FakeUpstream& upstream = add(Behaviour::NearlyBareFormErr);
  start();
  EXPECT_EQ(ask().text, kTruth);
  ASSERT_FALSE(upstream.received.empty());
  for (const Received& each : upstream.received)
    EXPECT_TRUE(each.edns || !each.name.ends_with("example.org")) << each.name;
}

TEST_F(ForwarderTest, AsksTcpForWhatIsTruncatedAndKeepsTheConnection) {
  FakeUpstream& upstream = add(Behaviour::Truncate);
  start();
  EXPECT_EQ(ask().outcome.message->answer_count(), 300);
  EXPECT_EQ(ask("b.example.org.").outcome.message->answer_count(), 300);
  EXPECT_EQ(upstream.connections(), 1u);
  for (const Received& each : upstream.received)
    EXPECT_EQ(each.cookie.empty(), each.tcp) << "no forger answers over TCP";
  upstream.shut();
  upstream.open();
  EXPECT_EQ(ask("c.example.org.").outcome.message->answer_count(), 300);
  EXPECT_EQ(upstream.connections(), 2u);
}

TEST_F(ForwarderTest, TakesRepliesOutOfOrderFromOneConnection) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenTcp);
  config_.timeout = kTimeout;
  start();
  ask("first.example.org.");
  std::set<int> answered;
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    const std::string host = "n" + std::to_string(i) + ".example.org";
    if (i % 2 == 0) upstream.behave(host, Behaviour::TruncateThenLateTcp);
    resolve(host + ".", [&, i, host](const Outcome& outcome) {
      EXPECT_EQ(describe(host + ".", outcome, loop_.now()),
                "NOERROR [" + host + ". 300 A 192.0.2.1]");
      answered.insert(i);
      order.push_back(i);
    });
  }
  EXPECT_TRUE(loop_.run_until([&] { return answered.size() == 50; }));
  EXPECT_EQ(order.size(), 50u);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_EQ(upstream.connections(), 1u);
}

TEST_F(ForwarderTest, PassesAnswersOfUncacheableKindsWithoutKeepingThem) {
  for (const Behaviour behaviour :
       {Behaviour::TtlZero, Behaviour::TtlTopBit, Behaviour::NxDomainWithoutSoa}) {
    config_.servers.clear();
    FakeUpstream& upstream = add(behaviour);
    start();
    ask();
    ask();
    EXPECT_EQ(upstream.count("www.example.org"), 2u);
    EXPECT_EQ(shared_->cache.statistics().insertions, 0u);
    forwarder_.reset();
  }
}

TEST_F(ForwarderTest, AThousandClientsCauseOneQuery) {
  FakeUpstream& upstream = add(Behaviour::Slow);
  start();
  int answered = 0;
  for (int i = 0; i < 1'000; ++i)
    resolve("www.example.org.", [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Positive);
      ++answered;
    });
  EXPECT_EQ(forwarder_->pending(), 1'000u);
  EXPECT_TRUE(loop_.run_until([&] { return answered == 1'000; }));
  EXPECT_LE(upstream.count("www.example.org"), 4u) << "one, and retries as 600 ms are slow";
  EXPECT_EQ(forwarder_->pending(), 0u);

  upstream.behave(Behaviour::Answer);
  answered = 0;
  for (int i = 0; i < 1'000; ++i)
    resolve("quick.example.org.", [&](const Outcome&) { ++answered; });
  EXPECT_TRUE(loop_.run_until([&] { return answered == 1'000; }));
  EXPECT_LE(upstream.count("quick.example.org"), 2u) << "one, and a retry where the test is slow";
}

// The answers that a turn has itself leave before anything is asked.
TEST_F(ForwarderTest, AsksInTheTurnsThatFollowAndAFewQuestionsInEach) {
  FakeUpstream& upstream = add(Behaviour::Dead);
  start();
  constexpr std::size_t kFlood = 5 * Forwarder::kTakeOffsPerTurn / 2;
  const auto sent = [&] { return status().queries - status().probes; };
  for (std::size_t i = 0; i < kFlood; ++i)
    resolve("n" + std::to_string(i) + ".example.org.", [](const Outcome&) {});
  EXPECT_EQ(sent(), 0u);
  loop_.turn();
  EXPECT_EQ(sent(), Forwarder::kTakeOffsPerTurn);
  loop_.turn();
  EXPECT_EQ(sent(), 2 * Forwarder::kTakeOffsPerTurn);
  loop_.turn();
  EXPECT_EQ(sent(), kFlood);
  EXPECT_TRUE(loop_.run_until([&] { return upstream.received.size() >= kFlood; }));
}

TEST_F(ForwarderTest, AFloodDelaysTheFirstQuestionOfAnotherClientByOne) {
  FakeUpstream& upstream = add(Behaviour::Dead);
  start();
  for (int i = 0; i < 500; ++i)
    resolve("flood" + std::to_string(i) + ".example.org.", [](const Outcome&) {});
  for (const char* name : {"a.example.org.", "b.example.org."})
    resolve(name, [](const Outcome&) {}, "192.0.2.200");
  ASSERT_TRUE(loop_.run_until([&] { return upstream.received.size() >= 5; }));
  std::vector<std::string> names;
  for (const Received& query : upstream.received) names.push_back(query.name);
  names.resize(5);
  EXPECT_THAT(names, ElementsAre("flood0.example.org", "a.example.org", "flood1.example.org",
                                 "b.example.org", "flood2.example.org"));
}

TEST_F(ForwarderTest, AsksAtOnceBeyondWhatMayWaitToBeAsked) {
  add(Behaviour::Dead);
  start();
  for (std::size_t i = 0; i < Forwarder::kMaxGrounded; ++i)
    resolve(
        "n" + std::to_string(i) + ".example.org.", [](const Outcome&) {},
        i % 2 == 0 ? "192.0.2.100" : "192.0.2.200");
  EXPECT_EQ(status().queries, status().probes);
  resolve("x.example.org.", [](const Outcome&) {});
  resolve("y.example.org.", [](const Outcome&) {});
  EXPECT_EQ(status().queries, status().probes + 2);
}

TEST_F(ForwarderTest, WorkersShareOneFlight) {
  FakeUpstream& upstream = add();
  upstream.behave("www.example.org", Behaviour::Dead);
  config_.timeout = std::chrono::milliseconds(10'000);
  start();
  int answered = 0;
  resolve("www.example.org.", [&](const Outcome&) { ++answered; });
  std::atomic<bool> joined{false};
  std::atomic<bool> other_answered{false};
  std::jthread other([&] {
    TestLoop loop;
    Forwarder forwarder(loop.get(), shared_, config_, cache_config_);
    ForwardRequest request;
    request.question = question("www.example.org.");
    forwarder.resolve(std::move(request), [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Positive);
      EXPECT_FALSE(outcome.upstream.empty());
      other_answered = true;
    });
    joined = true;
    EXPECT_TRUE(loop.run_until([&] { return other_answered.load(); }));
    EXPECT_EQ(forwarder.counters().joined.load(), 1u);
  });
  EXPECT_TRUE(loop_.run_until([&] { return joined.load(); }));
  upstream.behave("www.example.org", Behaviour::Answer);
  EXPECT_TRUE(loop_.run_until([&] { return answered == 1 && other_answered; }));
}

TEST_F(ForwarderTest, AnswersFromTheCacheWhatAnotherHasJustStored) {
  FakeUpstream& upstream = add();
  start();
  ask();
  ask();
  EXPECT_EQ(upstream.count("www.example.org"), 1u);
}

// RFC 5452: ports and ids over 2,000 queries.  A chi-square over 16 equal classes stays below 45
// but once in 10,000 runs if they are uniform.
TEST_F(ForwarderTest, PortsAndIdsAreUniform) {
  FakeUpstream& upstream = add();
  start();
  int answered = 0;
  for (int i = 0; i < 2'000; ++i) {
    resolve("n" + std::to_string(i) + ".example.org.", [&](const Outcome&) { ++answered; });
    if (i % 50 == 49) {
      ASSERT_TRUE(loop_.run_until([&] { return answered == i + 1; }));
    }
  }
  const std::size_t queries = upstream.received.size();
  ASSERT_GE(queries, 2'000u);
  // Retries: on a busy machine under a sanitizer, some answers come later than the first of them.
  ASSERT_LE(queries, 4'000u);
  std::set<std::uint16_t> ports;
  std::set<std::uint16_t> ids;
  std::array<int, 16> port_classes{};
  std::array<int, 16> id_classes{};
  std::array<int, 16> low_bits{};
  for (const Received& each : upstream.received) {
    ports.insert(each.port);
    ids.insert(each.id);
    ASSERT_GE(each.port, 32768);
    ++port_classes[(each.port - 32768) / 2048];
    ++id_classes[each.id / 4096];
    ++low_bits[each.id % 16];
  }
  const auto chi_square = [&](const std::array<int, 16>& classes) {
    const double expected = static_cast<double>(queries) / 16;
    double sum = 0;
    for (const int count : classes) sum += (count - expected) * (count - expected) / expected;
    return sum;
  };
  EXPECT_LT(chi_square(port_classes), 45);
  EXPECT_LT(chi_square(id_classes), 45);
  EXPECT_LT(chi_square(low_bits), 45);
  // Of 2,000 draws from 32,768, about 1,940 differ.
  EXPECT_GT(ports.size(), 1'880u);
  EXPECT_GT(ids.size(), 1'940u);
}

TEST_F(ForwarderTest, SpellsNamesInOddCaseUnlessTheUpstreamCannotKeepIt) {
  FakeUpstream& upstream = add();
  start();
  int odd = 0;
  for (int i = 0; i < 20; ++i) ask("abcdefghijklmnop" + std::to_string(i) + ".example.org.");
  for (const Received& each : upstream.received)
    if (each.spelled != wire_name(each.name)) ++odd;
  EXPECT_EQ(odd, 20);
  EXPECT_TRUE(status().keeps_case);

  upstream.behave(Behaviour::LowerCase);
  for (int i = 0; i < 3; ++i) ask("lower" + std::to_string(i) + ".example.org.");
  EXPECT_FALSE(status().keeps_case);
  EXPECT_THAT(events_.learned, ElementsAre(HasSubstr("case")));
  upstream.received.clear();
  ask("again.example.org.");
  EXPECT_EQ(upstream.received.size(), 1u);
}

// Names are equal in any case, and only a random one is to be kept.
TEST_F(ForwarderTest, TakesReplyInAnotherCaseToNameInPlainCase) {
  FakeUpstream& upstream = add(Behaviour::UpperCase);
  config_.case_randomization = false;
  start();
  EXPECT_EQ(ask().text, kTruth);
  EXPECT_EQ(upstream.count("www.example.org"), 1u);
  EXPECT_EQ(upstream.received.back().spelled, wire_name("www.example.org"));
}

TEST_F(ForwarderTest, AsksAgainInPlainCaseWhereTheRandomOneIsLost) {
  FakeUpstream& upstream = add(Behaviour::UpperCase);
  start();
  EXPECT_EQ(ask().text, kTruth);
  EXPECT_EQ(upstream.count("www.example.org"), 2u);
  EXPECT_EQ(upstream.received.back().spelled, wire_name("www.example.org"));
}

TEST_F(ForwarderTest, RemembersWhoDoesNotSpeakEdns) {
  FakeUpstream& upstream = add(Behaviour::FormErrOnEdns);
  upstream.answers_only_example_org = true;
  start();
  ask("a.example.org.");
  ask();
  EXPECT_EQ(upstream.count("www.example.org"), 2u);
  ask("b.example.org.");
  EXPECT_EQ(upstream.count("b.example.org"), 1u);
  EXPECT_FALSE(upstream.received.back().edns);
  EXPECT_THAT(events_.learned, ElementsAre(HasSubstr("EDNS")));
}

// Its server has answered no probe before.
class NewUpstreamTest : public ForwarderTest {
 protected:
  FakeUpstream& add_new(Behaviour behaviour) {
    config_.timeout = kTimeout;
    FakeUpstream& upstream = add(behaviour);
    upstream.answers_only_example_org = true;
    start();
    return upstream;
  }
};

TEST_F(NewUpstreamTest, LeavesCookiesOutWhereTheyAreRefused) {
  for (const Behaviour behaviour : {Behaviour::FormErrOnCookie, Behaviour::NotImpOnCookie,
                                    Behaviour::RefusedOnCookie, Behaviour::BadVersOnCookie}) {
    forwarder_.reset();
    upstreams_.clear();
    config_.servers.clear();
    events_.learned.clear();
    FakeUpstream& upstream = add_new(behaviour);
    for (const char* name : {"a.example.org.", "b.example.org.", "c.example.org."})
      EXPECT_THAT(ask(name).text, StartsWith("NOERROR"));
    EXPECT_EQ(upstream.count("b.example.org"), 2u);
    EXPECT_EQ(upstream.count("c.example.org"), 1u);
    EXPECT_TRUE(upstream.received.back().edns);
    EXPECT_EQ(upstream.received.back().cookie, "");
    EXPECT_THAT(events_.learned, ElementsAre(HasSubstr("cookies")));
    EXPECT_FALSE(status().takes_options);
    EXPECT_TRUE(status().speaks_edns);
  }
}

TEST_F(NewUpstreamTest, LeavesEdnsOutWhereItIsRefusedWithAnOptRecord) {
  FakeUpstream& upstream = add_new(Behaviour::FormErrWithOptOnEdns);
  for (const char* name : {"a.example.org.", "b.example.org.", "c.example.org."})
    EXPECT_THAT(ask(name).text, StartsWith("NOERROR"));
  EXPECT_EQ(upstream.count("a.example.org"), 3u);
  EXPECT_EQ(upstream.count("c.example.org"), 1u);
  EXPECT_FALSE(upstream.received.back().edns);
  EXPECT_THAT(events_.learned, ElementsAre(HasSubstr("EDNS")));
}

TEST_F(NewUpstreamTest, SendsNoCookiesIfToldSo) {
  config_.cookies = UpstreamCookieMode::Off;
  FakeUpstream& upstream = add_new(Behaviour::FormErrOnCookie);
  ask();
  EXPECT_EQ(upstream.count("www.example.org"), 1u);
  EXPECT_TRUE(upstream.received.back().edns);
}

// Single names say nothing about the server, even if they are the first that it is asked for.
TEST_F(ForwarderTest, KeepsEdnsWhereFewNamesAreRefused) {
  for (const bool has_answered : {false, true}) {
    forwarder_.reset();
    upstreams_.clear();
    config_.servers.clear();
    FakeUpstream& upstream = add();
    upstream.answers_only_example_org = true;
    for (const char* name : {"x.example.org", "y.example.org", "z.example.org"})
      upstream.behave(name, Behaviour::FormErrOnEdns);
    start();
    if (has_answered) ask("good.example.org.");
    ask("x.example.org.");
    ask("x.example.org.");
    if (has_answered) {
      ask("y.example.org.");
      ask("z.example.org.");
    }
    ask();
    EXPECT_TRUE(upstream.received.back().edns);
    EXPECT_EQ(upstream.received.back().cookie.size(), 8u);
    EXPECT_TRUE(status().speaks_edns);
    EXPECT_THAT(events_.learned, IsEmpty());
  }
}

TEST_F(ForwarderTest, SendsCookiesAndLearnsTheServers) {
  FakeUpstream& upstream = add(Behaviour::BadCookie);
  start();
  ask();
  ask("b.example.org.");
  EXPECT_EQ(upstream.count("www.example.org"), 2u);
  EXPECT_EQ(upstream.count("b.example.org"), 1u);
  EXPECT_EQ(upstream.received.back().cookie.size(), 24u);
}

TEST_F(ForwarderTest, CopiesRecursionDesiredAndKeepsNothingWithoutIt) {
  FakeUpstream& upstream = add();
  start();
  bool done = false;
  ForwardRequest request;
  request.question = question("www.example.org.");
  request.recursion_desired = false;
  forwarder_->resolve(std::move(request), [&](const Outcome&) { done = true; });
  ASSERT_TRUE(loop_.run_until([&] { return done; }));
  EXPECT_FALSE(upstream.received.back().recursion_desired);
  EXPECT_EQ(shared_->cache.statistics().insertions, 0u);
}

// Retries make up for a loss of 30 %.
TEST_F(ForwarderTest, LossIsNotLeftToTheClient) {
  add(Behaviour::Loss30);
  start();
  EXPECT_GE(positive_answers(200), 190);
}

// Nine tries within the timeout: all are lost once in 50,000 times.
TEST_F(ForwarderTest, LossAtBothUpstreamsIsMadeUpForAlmostAlways) {
  add(Behaviour::Loss30);
  add(Behaviour::Loss30);
  config_.timeout = std::chrono::milliseconds(4'000);
  start();
  EXPECT_GE(positive_answers(200), 198);
}

// An upstream that has become slow; round trips were short before.
TEST_F(ForwarderTest, AsksNoUpstreamMoreThanThreeTimesASecond) {
  FakeUpstream& one = add();
  FakeUpstream& other = add();
  config_.timeout = std::chrono::milliseconds(1'900);
  start();
  ask();
  for (FakeUpstream* const each : {&one, &other})
    each->behave("www.silent.example.org", Behaviour::Dead);
  ask("www.silent.example.org.");
  for (FakeUpstream* const each : {&one, &other}) {
    EXPECT_GE(each->count("www.silent.example.org"), 2u);
    EXPECT_LE(each->count("www.silent.example.org"), 6u);
  }
}

// A dead upstream costs one try, and is used again when it is back.
TEST_F(ForwarderTest, LeavesADeadUpstreamAndComesBackToIt) {
  FakeUpstream& dead = add(Behaviour::Dead);
  add();
  config_.policy = UpstreamPolicy::Sequential;
  start();
  for (int i = 0; i < 4; ++i) {
    const Answer answer = ask("a" + std::to_string(i) + ".example.org.");
    EXPECT_THAT(answer.text, StartsWith("NOERROR"));
    EXPECT_LE(answer.took, kAtOnce);
  }
  EXPECT_TRUE(loop_.run_until([&] { return events_.downs == 1; }));
  for (int i = 0; i < 10; ++i)
    EXPECT_LE(ask("b" + std::to_string(i) + ".example.org.").took, kAtOnce);
  EXPECT_EQ(dead.count("b0.example.org"), 0u) << "only probes go there now";
  dead.behave(Behaviour::Answer);
  EXPECT_TRUE(loop_.run_until([&] { return events_.ups == 1; }));
  dead.received.clear();
  ask("c.example.org.");
  EXPECT_EQ(dead.received.size(), 1u) << "the first in the order is asked first again";
}

// A server that has told a failure has nothing to add.
TEST_F(ForwarderTest, AsksAServerThatHasFailedNoMore) {
  FakeUpstream& failing = add(Behaviour::ServFail);
  FakeUpstream& silent = add(Behaviour::Dead);
  config_.policy = UpstreamPolicy::Sequential;
  config_.timeout = std::chrono::milliseconds(1'000);
  start();
  EXPECT_THAT(ask().text, StartsWith("SERVFAIL"));
  EXPECT_EQ(failing.count("www.example.org"), 1u);
  EXPECT_GE(silent.count("www.example.org"), 2u);
}

// A query from shortly before the return of the upstream gets its answer.
TEST_F(ForwarderTest, AnswersFromADownUpstreamThatReturnsInTime) {
  FakeUpstream& upstream = add(Behaviour::Dead);
  config_.timeout = std::chrono::milliseconds(10'000);
  start();
  resolve("early.example.org.", [](const Outcome&) {});
  ASSERT_TRUE(loop_.run_until([&] { return events_.downs == 1; }));
  std::string answer;
  resolve("late.example.org.", [&](const Outcome& outcome) {
    answer = describe("late.example.org.", outcome, loop_.now());
  });
  loop_.run_for(200);
  upstream.behave(Behaviour::Answer);
  ASSERT_TRUE(loop_.run_until([&] { return !answer.empty(); }));
  EXPECT_THAT(answer, StartsWith("NOERROR"));
}

// SERVFAIL, REFUSED and NOTIMP of one upstream are not the final answer.
TEST_F(ForwarderTest, GoesOnToTheNextOnBadRcodesAndPassesTheLast) {
  for (const Behaviour behaviour : {Behaviour::ServFail, Behaviour::Refused, Behaviour::NotImp}) {
    upstreams_.clear();
    config_.servers.clear();
    config_.policy = UpstreamPolicy::Sequential;
    add(behaviour);
    FakeUpstream& second = add();
    start();
    EXPECT_EQ(ask().text, kTruth);
    EXPECT_LE(ask("b.example.org.").took, kAtOnce);
    second.behave(Behaviour::Refused);
    EXPECT_THAT(ask("c.example.org.").text, StartsWith("REFUSED"));
    EXPECT_EQ(events_.downs, 0);
    EXPECT_EQ(status(0).health, Health::Up);
    forwarder_.reset();
  }
}

// The outcome of two servers is the best of theirs, whichever is asked first: an answer, else a
// failure that one has told, else our reason why a reply is not passed on, else that of a server
// that cannot be reached.
struct Ending {
  Behaviour behaviour;
  const char* outcome;
};
constexpr Ending kBestFirst[] = {
    {Behaviour::Answer, "NOERROR"},
    {Behaviour::NxDomain, "NXDOMAIN"},
    {Behaviour::ServFail, "SERVFAIL EDE 0"},
    {Behaviour::Refused, "REFUSED EDE 0"},
    {Behaviour::AliasLoop, "SERVFAIL EDE 24"},
};

TEST_F(ForwarderTest, PassesTheBestOutcomeOfItsServersOn) {
  config_.policy = UpstreamPolicy::Sequential;
  FakeUpstream& first = add();
  FakeUpstream& second = add();
  start();
  int names = 0;
  for (std::size_t one = 0; one < std::size(kBestFirst); ++one)
    for (std::size_t other = 0; other < std::size(kBestFirst); ++other) {
      first.behave(kBestFirst[one].behaviour);
      second.behave(kBestFirst[other].behaviour);
      // The first of two answers counts, and the last of two failures.
      const bool is_answer = one < 2;
      const bool are_failures = one >= 2 && one < 4 && other >= 2 && other < 4;
      const std::size_t best = is_answer ? one : are_failures ? other : std::min(one, other);
      const std::string name = "n" + std::to_string(++names) + ".example.org.";
      EXPECT_THAT(ask(name).text, StartsWith(kBestFirst[best].outcome)) << one << " " << other;
    }
  for (FakeUpstream* const shut : {&first, &second}) {
    FakeUpstream& open = shut == &first ? second : first;
    shut->shut();
    for (const Ending& ending : kBestFirst) {
      open.behave(ending.behaviour);
      const std::string name = "n" + std::to_string(++names) + ".example.org.";
      EXPECT_THAT(ask(name).text, StartsWith(ending.outcome)) << (shut == &first);
    }
    shut->open();
  }
}

// One bad name never marks an upstream down.
TEST_F(ForwarderTest, OneDeadNameDoesNotMakeTheUpstreamDead) {
  FakeUpstream& upstream = add();
  upstream.behave("dead.example.org", Behaviour::Dead);
  config_.timeout = std::chrono::milliseconds(500);
  start();
  for (int i = 0; i < 3; ++i) {
    const Answer answer = ask("dead.example.org.");
    EXPECT_THAT(answer.text, StartsWith("SERVFAIL"));
    EXPECT_LE(answer.took, 500 + kAtOnce);
  }
  EXPECT_EQ(events_.downs, 0);
  EXPECT_LE(ask("good.example.org.").took, kAtOnce);
}

// ICMP "port unreachable" ends a try at once.
TEST_F(ForwarderTest, FailsAtOnceWhenAllRefuse) {
  add().shut();
  add().shut();
  start();
  const Answer answer = ask();
  EXPECT_THAT(answer.text, StartsWith("SERVFAIL EDE 23"));
  EXPECT_LE(answer.took, kAtOnce);
}

// A shortage in this process marks no upstream down, and leaves no trace once it is over.
TEST_F(ForwarderTest, BlamesNoUpstreamForAShortageOfDescriptors) {
  add();
  add();
  start();
  EXPECT_EQ(ask().text, kTruth);
  // The first queries cause probes, which would find no descriptors.
  const auto is_idle = [&] { return status(0).in_flight + status(1).in_flight == 0; };
  ASSERT_TRUE(loop_.run_until(is_idle));
  const UpstreamStatus before = status();
  {
    const FewDescriptors none(0);
    for (const char* name : {"a.example.org.", "b.example.org.", "c.example.org."}) {
      const Answer answer = ask(name);
      EXPECT_EQ(answer.text, "SERVFAIL EDE 0");
      EXPECT_LE(answer.took, kAtOnce);
    }
  }
  for (const std::size_t index : {0u, 1u}) {
    EXPECT_EQ(status(index).health, Health::Up);
    EXPECT_EQ(status(index).unreachable, 0u);
    EXPECT_EQ(status(index).timeouts, 0u);
    EXPECT_EQ(status(index).last_error, "");
  }
  EXPECT_EQ(status().rtt_us, before.rtt_us);
  EXPECT_EQ(forwarder_->counters().shortages, 6u);
  const CacheKey key(question("a.example.org."), false, false);
  EXPECT_FALSE(shared_->cache.find(key, loop_.now())) << "the failure is no property of the name";
  EXPECT_THAT(ask("a.example.org.").text, StartsWith("NOERROR"));
}

TEST_F(ForwarderTest, WaitsForAnEarlierTryWhereNoOtherCanBeMade) {
  add(Behaviour::Slow);
  start();
  std::string answer;
  resolve("www.example.org.", [&](const Outcome& outcome) {
    answer = describe("www.example.org.", outcome, loop_.now());
  });
  loop_.turn();  // the first try
  {
    const FewDescriptors none(0);
    // The second try is due after 300 ms, the answer comes after 600.
    ASSERT_TRUE(loop_.run_until([&] { return forwarder_->counters().shortages > 0; }));
  }
  ASSERT_TRUE(loop_.run_until([&] { return !answer.empty(); }));
  EXPECT_EQ(answer, kTruth);
}

TEST_F(ForwarderTest, ProbesThatCannotBeSentMakeNobodyDown) {
  FakeUpstream& upstream = add(Behaviour::Dead);
  config_.timeout = std::chrono::milliseconds(300);
  start();
  while (status().health == Health::Up) ask("a.example.org.");
  ASSERT_EQ(status().health, Health::Doubtful);
  const std::uint64_t failures = status().probe_failures;
  {
    const FewDescriptors none(0);
    const std::uint64_t probes = status().probes;
    ASSERT_TRUE(loop_.run_until([&] { return status().probes >= probes + 5; }));
  }
  EXPECT_LE(status().probe_failures, failures + 1) << "one was under way";
  EXPECT_EQ(events_.downs, 0);
  upstream.behave(Behaviour::Answer);
  EXPECT_TRUE(loop_.run_until([&] { return status().health == Health::Up; }, 2'000));
}

TEST_F(ForwarderTest, BlamesNoUpstreamForQueriesThatNeverLeft) {
  add();
  config_.timeout = std::chrono::milliseconds(1'000);
  start();
  {
    const FullSendBuffers full;
    for (const char* name : {"a.example.org.", "b.example.org.", "c.example.org."})
      EXPECT_THAT(ask(name).text, StartsWith("SERVFAIL EDE 0"));
  }
  EXPECT_EQ(status().timeouts, 0u);
  EXPECT_EQ(status().health, Health::Up);
  EXPECT_GE(forwarder_->counters().shortages, 3u);
  EXPECT_THAT(ask("a.example.org.").text, StartsWith("NOERROR"));
}

// A process that was stopped, or a machine that was: the answer waits in the socket.
TEST_F(ForwarderTest, AnAnswerThatIsThereBeatsItsTimeoutAfterAStall) {
  TestLoop elsewhere;
  auto upstream = std::make_unique<FakeUpstream>(elsewhere.get());
  config_.servers.push_back(upstream->server());
  config_.timeout = std::chrono::milliseconds(400);
  start();
  const auto fetch = [&](const std::string& name, bool stalls) {
    std::string answer;
    const std::size_t before = upstream->received.size();
    resolve(name, [&](const Outcome& outcome) { answer = describe(name, outcome, loop_.now()); });
    loop_.turn();
    elsewhere.run_until([&] { return upstream->received.size() > before; });
    if (stalls) std::this_thread::sleep_for(config_.timeout * 2);
    loop_.run_until([&] { return !answer.empty(); });
    return answer;
  };
  EXPECT_THAT(fetch("calm.example.org.", false), StartsWith("NOERROR"));
  for (const char* name : {"a.example.org.", "b.example.org.", "c.example.org."})
    EXPECT_THAT(fetch(name, true), StartsWith("NOERROR"));
  const UpstreamStatus seen = shared_->upstreams.status(loop_.now()).at(0);
  EXPECT_EQ(seen.timeouts, 0u);
  EXPECT_EQ(seen.health, Health::Up);
  forwarder_.reset();
  upstream.reset();
}

TEST_F(ForwarderTest, SaysThatNoUpstreamIsConfigured) {
  start();
  EXPECT_EQ(ask().text, "SERVFAIL EDE 22");
  EXPECT_THAT(std::string(ask("b.example.org.").outcome.message->ede_text()),
              HasSubstr("no upstream server is configured"));
}

// RFC 8767.
TEST_F(ForwarderTest, ServesStaleWhenAllAreDeadAndFreshWhenTheyAreBack) {
  FakeUpstream& upstream = add();
  upstream.set_ttl(1);
  config_.timeout = std::chrono::milliseconds(500);
  start();
  EXPECT_THAT(ask().text, StartsWith("NOERROR"));
  upstream.behave(Behaviour::Dead);
  loop_.run_for(1'100);
  const Answer first = ask();
  EXPECT_EQ(first.text, "NOERROR stale [www.example.org. 30 A 192.0.2.1] EDE 3");
  EXPECT_LE(first.took, 500 + kAtOnce);
  const std::size_t asked = upstream.count("www.example.org");
  for (int i = 0; i < 20; ++i) {
    const Answer next = ask();
    EXPECT_THAT(next.text, StartsWith("NOERROR stale"));
    EXPECT_LE(next.took, kAtOnce);
  }
  EXPECT_EQ(upstream.count("www.example.org"), asked) << "paused";
  EXPECT_THAT(ask("never.example.org.").text, StartsWith("SERVFAIL EDE 22"));
  ASSERT_TRUE(loop_.run_until([&] { return events_.downs == 1; }));
  upstream.behave(Behaviour::Answer);
  ASSERT_TRUE(loop_.run_until([&] { return events_.ups == 1; }));
  EXPECT_EQ(ask().text, "NOERROR [www.example.org. 1 A 192.0.2.1]");
  EXPECT_THAT(ask("never.example.org.").text, StartsWith("NOERROR"));
}

// While all are down, a stale answer comes at once; the question is asked all the same.
TEST_F(ForwarderTest, RefreshesAStaleAnswerWhileAllAreDown) {
  FakeUpstream& upstream = add();
  upstream.set_ttl(1);
  config_.timeout = std::chrono::milliseconds(500);
  start();
  ask();
  const Millis stale_at = loop_.now() + 1'000;
  upstream.behave(Behaviour::Dead);
  ask("other.example.org.");
  ASSERT_TRUE(loop_.run_until([&] { return events_.downs == 1 && loop_.now() > stale_at; }));
  const std::size_t asked = upstream.count("www.example.org");
  EXPECT_THAT(ask().text, StartsWith("NOERROR stale"));
  EXPECT_TRUE(loop_.run_until([&] { return upstream.count("www.example.org") > asked; }));
}

// RFC 8767, section 5: at most 1.8 s, sooner where all upstreams are found to be down.
TEST_F(ForwarderTest, AnswersStaleLongBeforeTheTimeoutAndRefreshesInTheBackground) {
  FakeUpstream& upstream = add();
  upstream.set_ttl(1);
  config_.timeout = std::chrono::milliseconds(10'000);
  start();
  ask();
  loop_.run_for(1'100);
  upstream.set_ttl(300);
  upstream.behave("www.example.org", Behaviour::VerySlow);
  const Answer answer = ask();
  EXPECT_THAT(answer.text, StartsWith("NOERROR stale"));
  EXPECT_LE(answer.took, 1'800 + kAtOnce);
  EXPECT_TRUE(loop_.run_until([&] { return shared_->cache.statistics().insertions == 2; }));
}

TEST_F(ForwarderTest, RefreshesWithoutAnybodyWaiting) {
  FakeUpstream& upstream = add();
  start();
  ask();
  ForwardRequest request;
  request.question = question("www.example.org.");
  forwarder_->refresh(request);
  forwarder_->refresh(request);
  EXPECT_TRUE(loop_.run_until([&] { return upstream.count("www.example.org") == 2; }));
  loop_.run_for(20);
  EXPECT_EQ(upstream.count("www.example.org"), 2u);
  EXPECT_EQ(shared_->cache.statistics().insertions, 2u);
}

// Over a limit, queries get an answer at once instead of a place in a queue.
TEST_F(ForwarderTest, RejectsAtOnceWhatIsTooMuch) {
  add(Behaviour::Dead);
  config_.max_in_flight = 40;
  config_.timeout = kTimeout;
  start();
  int failed = 0;
  for (int i = 0; i < 100; ++i)
    resolve("n" + std::to_string(i) + ".zone" + std::to_string(i) + ".",
            [&](const Outcome& outcome) {
              ++failed;
              EXPECT_EQ(outcome.message->rcode(), Rcode::ServFail);
            });
  EXPECT_TRUE(loop_.run_until([&] { return failed == 90; }, 800)) << failed;
  int other = 0;
  resolve("x.example.net.", [&](const Outcome&) { ++other; }, "192.0.2.200");
  loop_.run_for(50);
  EXPECT_EQ(other, 0) << "another client has places of its own";
  EXPECT_TRUE(loop_.run_until([&] { return failed == 100 && other == 1; }));
  EXPECT_EQ(shared_->flights.in_flight(), 0u);
  EXPECT_EQ(forwarder_->pending(), 0u);
}

// One question of many clients, each of whom has a quarter of the places at most.
TEST_F(ForwarderTest, LetsSoManyWaitOfOneClientAndOfAll) {
  FakeUpstream& upstream = add();
  upstream.set_ttl(1);
  config_.max_in_flight = 10;
  config_.timeout = kTimeout;
  start();
  ask("stale.example.org.");
  loop_.run_for(1'000);
  for (const std::string name : {"a.example.org", "b.example.org"}) {
    upstream.behave(name, Behaviour::Dead);
    std::map<std::string, int> answers;
    const auto ask_often = [&](const std::string& client, int times) {
      for (int i = 0; i < times; ++i)
        resolve(
            name + ".", [&answers, client](const Outcome&) { ++answers[client]; }, client.c_str());
      loop_.run_for(20);
      return answers[client];
    };
    EXPECT_EQ(ask_often("192.0.2.1", 15), 5) << "10 wait";
    EXPECT_EQ(ask_often("192.0.2.2", 10), 0);
    EXPECT_EQ(ask_often("192.0.2.1", 3), 8);
    EXPECT_EQ(ask_often("192.0.2.3", 11), 1);
    std::string stale;
    resolve(
        "stale.example.org.",
        [&](const Outcome& outcome) {
          stale = describe("stale.example.org.", outcome, loop_.now());
        },
        "192.0.2.3");
    loop_.run_for(20);
    EXPECT_THAT(stale, StartsWith("NOERROR stale"));
    EXPECT_EQ(ask_often("192.0.2.4", 9), 0);
    EXPECT_EQ(ask_often("192.0.2.5", 2), 1) << "40 wait";
    upstream.behave(name, Behaviour::Answer);
    ASSERT_TRUE(loop_.run_until([&] { return forwarder_->pending() == 0; }));
    EXPECT_EQ(answers["192.0.2.1"], 18);
  }
}

TEST_F(ForwarderTest, BoundsThePacketsOfOneQuestion) {
  for (int i = 0; i < 12; ++i) add(Behaviour::Dead);
  config_.timeout = std::chrono::milliseconds(4'000);
  start();
  ask();
  std::size_t packets = 0;
  for (const auto& upstream : upstreams_) packets += upstream->count("www.example.org");
  EXPECT_LE(packets, 16u);
  EXPECT_GE(packets, 12u);
}

// Each of these servers wants a query over UDP and two over TCP.
TEST_F(ForwarderTest, BoundsThePacketsOfRetriesInOtherWays) {
  for (int i = 0; i < 10; ++i) add(Behaviour::TruncateNoTcp);
  config_.timeout = kTimeout;
  start();
  const Answer answer = ask();
  EXPECT_THAT(answer.text, StartsWith("SERVFAIL"));
  std::size_t packets = 0;
  for (const auto& upstream : upstreams_) packets += upstream->count("www.example.org");
  EXPECT_LE(packets, 16u);
  EXPECT_GE(packets, 15u);
  EXPECT_LE(answer.outcome.packets, 16u);
}

TEST_F(ForwarderTest, AsksTheLongestZonesServers) {
  FakeUpstream& general = add();
  FakeUpstream zone(loop_.get());
  FakeUpstream deep(loop_.get());
  config_.zones["corp.example.org"] = {zone.server()};
  config_.zones["deep.corp.example.org"] = {deep.server()};
  start();
  ask("www.example.org.");
  ask("xcorp.example.org.");
  ask("www.corp.example.org.");
  ask("corp.example.org.");
  ask("www.deep.corp.example.org.");
  EXPECT_EQ(general.received.size(), 2u);
  EXPECT_EQ(zone.received.size(), 2u);
  EXPECT_EQ(deep.received.size(), 1u);
  EXPECT_EQ(forwarder_->route(wire_name("a.deep.corp.example.org.")).zone, "deep.corp.example.org");
  EXPECT_EQ(forwarder_->route(wire_name("example.net.")).zone, "");
}

TEST_F(ForwarderTest, FollowsItsPolicy) {
  for (int i = 0; i < 3; ++i) add();
  const auto asked = [&](UpstreamPolicy policy) {
    config_.policy = policy;
    start();
    for (auto& upstream : upstreams_) upstream->received.clear();
    for (int i = 0; i < 60; ++i) ask("n" + std::to_string(i) + ".example.org.");
    std::vector<std::size_t> counts;
    for (auto& upstream : upstreams_) counts.push_back(upstream->received.size());
    forwarder_.reset();
    return counts;
  };
  EXPECT_THAT(asked(UpstreamPolicy::Sequential), ElementsAre(60, 0, 0));
  EXPECT_THAT(asked(UpstreamPolicy::RoundRobin), ElementsAre(20, 20, 20));
  EXPECT_THAT(asked(UpstreamPolicy::Random), ::testing::Each(::testing::Gt(5u)));
  EXPECT_THAT(asked(UpstreamPolicy::Parallel), ElementsAre(60, 60, 60));
}

TEST_F(ForwarderTest, PrefersTheFastest) {
  FakeUpstream& slow = add(Behaviour::Slow);
  FakeUpstream& fast = add();
  start();
  ASSERT_TRUE(loop_.run_until([&] { return status(1).rtt_us > 0; })) << "the loop check measures";
  slow.received.clear();
  for (int i = 0; i < 20; ++i)
    EXPECT_LE(ask("n" + std::to_string(i) + ".example.org.").took, kAtOnce);
  EXPECT_THAT(slow.received, IsEmpty());
  EXPECT_EQ(fast.received.size(), 20u);
}

// The time of a connection says nothing about UDP.
TEST_F(ForwarderTest, MeasuresTheTimeOfRepliesOverUdpOnly) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenLateTcp);
  start();
  const auto is_idle = [&] { return status().rtt_us > 0 && status().in_flight == 0; };
  ASSERT_TRUE(loop_.run_until(is_idle)) << "the loop check is over";
  bool done = false;
  resolve("www.example.org.", [&](const Outcome&) { done = true; });
  const auto is_over_tcp = [&] {
    return !upstream.received.empty() && upstream.received.back().tcp;
  };
  ASSERT_TRUE(loop_.run_until(is_over_tcp));
  const std::uint32_t before = status().rtt_us;
  ASSERT_TRUE(loop_.run_until([&] { return done; }));
  EXPECT_EQ(status().rtt_us, before);
}

TEST_F(ForwarderTest, MeasuresServersThatItDoesNotAskNowAndThen) {
  for (int i = 0; i < 3; ++i) add();
  start();
  const auto is_idle = [&] { return status(0).rtt_us * status(1).rtt_us * status(2).rtt_us > 0; };
  ASSERT_TRUE(loop_.run_until(is_idle)) << "the loop checks are over";
  const auto probes = [&] { return status(0).probes + status(1).probes + status(2).probes; };
  const Millis begun = loop_.now();
  for (int i = 0; i < 40; ++i) ask("n" + std::to_string(i) + ".example.org.");
  const std::uint64_t after = probes();
  EXPECT_GE(after, 5u) << "three loop checks, and two are measured";
  EXPECT_LE(after, 5u + 5 * ((loop_.now() - begun) / 2'000 + 1));
}

// A server that resolves nothing answers its own names and those that it knows.
TEST_F(ForwarderTest, JudgesAServerByWhatClientsAskItToResolve) {
  FakeUpstream& upstream = add(Behaviour::ServFail);
  start();
  const std::string label = shared_->upstreams.state_of(upstream.server())->loop_label();
  upstream.behave(label + ".loop-check.meshdns.internal", Behaviour::ServFail);
  ASSERT_TRUE(loop_.run_until([&] { return status().servfail > 0; })) << "to the loop check";
  int answered = 0;
  for (std::size_t i = 0; i < 2 * kFailuresToFail; ++i) {
    ForwardRequest request;
    const std::string name = "n" + std::to_string(i) + ".example.org.";
    request.question = question(name);
    request.recursion_desired = false;
    forwarder_->resolve(std::move(request), [&](const Outcome&) { ++answered; });
  }
  ASSERT_TRUE(loop_.run_until([&] { return answered == 2 * kFailuresToFail; }));
  for (std::size_t i = 1; i < kFailuresToFail; ++i) ask("m" + std::to_string(i) + ".example.org.");
  EXPECT_EQ(status().failing_with, "");
  ask("last.example.org.");
  EXPECT_EQ(status().failing_with, "SERVFAIL");
}

TEST_F(ForwarderTest, RacesAllUpstreamsWithParallel) {
  add(Behaviour::Dead);
  add(Behaviour::Slow);
  add();
  config_.policy = UpstreamPolicy::Parallel;
  start();
  const Answer answer = ask();
  EXPECT_EQ(answer.text, kTruth);
  EXPECT_LE(answer.took, kAtOnce);
}

TEST_F(ForwarderTest, FlightsEndAsTheyBeganWhenReconfigured) {
  FakeUpstream& old = add(Behaviour::Slow);
  start();
  bool done = false;
  resolve("www.example.org.", [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.message->kind(), MessageKind::Positive);
    done = true;
  });
  loop_.run_for(20);
  config_.servers.clear();
  FakeUpstream& fresh = add();
  reconfigure(config_);
  EXPECT_LE(ask("b.example.org.").took, kAtOnce);
  EXPECT_TRUE(loop_.run_until([&] { return done; }));
  EXPECT_EQ(old.count("b.example.org"), 0u);
  EXPECT_EQ(fresh.count("www.example.org"), 0u);
}

TEST_F(ForwarderTest, AsksAServerThatStaysWithTheOptionsOfAReload) {
  FakeUpstream& upstream = add();
  start();
  int names = 0;
  const auto ask_another = [&] {
    ask("abcdefghijklmnop" + std::to_string(++names) + ".example.org.");
    return upstream.received.back();
  };
  for (const bool odd_case : {true, false, true})
    for (const bool cookies : {true, false, true}) {
      config_.case_randomization = odd_case;
      config_.cookies = cookies ? UpstreamCookieMode::Auto : UpstreamCookieMode::Off;
      reconfigure(config_);
      const Received asked = ask_another();
      EXPECT_EQ(asked.spelled != wire_name(asked.name), odd_case);
      EXPECT_EQ(!asked.cookie.empty(), cookies);
    }
}

TEST_F(ForwarderTest, TellsWhichZonesAreThoseOfLinks) {
  add();
  config_.zones["corp.example.org"] = config_.servers;
  config_.zones["lab.corp.example.org"] = config_.servers;
  config_.link_zones = {"lab.corp.example.org"};
  start();
  const auto is_of_link = [&](const char* name) {
    return forwarder_->route(wire_name(name)).is_of_link;
  };
  EXPECT_FALSE(is_of_link("www.example.org."));
  EXPECT_FALSE(is_of_link("www.corp.example.org."));
  EXPECT_TRUE(is_of_link("www.lab.corp.example.org."));
  config_.link_zones = {"corp.example.org"};
  reconfigure(config_);
  EXPECT_TRUE(is_of_link("www.corp.example.org."));
  EXPECT_FALSE(is_of_link("www.lab.corp.example.org."));
}

// Two reloads within milliseconds, and a worker that is busy.
TEST_F(ForwarderTest, AWorkerThatTakesAnOlderConfigurationOverLateLeavesTheRulesOfTheNewerOne) {
  add();
  const UpstreamConfig first = config_;
  start();
  Forwarder slow(loop_.get(), shared_, first, cache_config_);
  UpstreamConfig second = first;
  second.servers = {*parse_upstream_server("192.0.2.53")};
  second.deny_answers = {*IpPrefix::parse("192.0.2.0/24")};
  reconfigure(second);
  FakeUpstream& fresh = add();
  UpstreamConfig third = first;
  third.servers = {fresh.server()};
  reconfigure(third);
  EXPECT_EQ(ask().text, kTruth);
  const CacheKey key(question("www.example.org."), false, false);
  EXPECT_TRUE(shared_->cache.find(key, loop_.now()));
  slow.reconfigure(second, cache_config_);
  EXPECT_TRUE(shared_->cache.find(key, loop_.now()))
      << "its server is asked, and no rule that holds denies its address";
}

TEST_F(ForwarderTest, AnswersEverybodyWhenClosed) {
  add(Behaviour::Dead);
  start();
  int answered = 0;
  for (int i = 0; i < 10; ++i)
    resolve("n" + std::to_string(i / 2) + ".example.org.", [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Failure);
      ++answered;
    });
  forwarder_->close();
  EXPECT_EQ(answered, 10);
  EXPECT_EQ(shared_->flights.in_flight(), 0u);
}

// RFC 8020.
TEST_F(ForwarderTest, DeniesWhatLiesBelowADeniedNameIfToldSo) {
  FakeUpstream& upstream = add(Behaviour::NxDomain);
  cache_config_.nxdomain_cut = true;
  start();
  EXPECT_THAT(ask("gone.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_THAT(ask("a.b.gone.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_EQ(upstream.count("a.b.gone.example.org"), 0u);
  cache_config_.nxdomain_cut = false;
  reconfigure(config_);
  EXPECT_THAT(ask("a.b.gone.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_GE(upstream.count("a.b.gone.example.org"), 1u);
}

// The servers of a zone know names that the servers of the zone above deny.
TEST_F(ForwarderTest, DeniesNothingBelowADeniedNameThatOtherServersAnswerFor) {
  FakeUpstream& general = add(Behaviour::NxDomain);
  FakeUpstream zone(loop_.get());
  FakeUpstream deep(loop_.get(), Behaviour::NxDomain);
  config_.zones["corp.example.org"] = {zone.server()};
  config_.zones["deep.corp.example.org"] = {deep.server()};
  cache_config_.nxdomain_cut = true;
  start();
  EXPECT_THAT(ask("example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_THAT(ask("corp.example.org.").text, StartsWith("NOERROR"));
  EXPECT_THAT(ask("www.corp.example.org.").text, StartsWith("NOERROR"));
  EXPECT_EQ(zone.count("www.corp.example.org"), 1u);
  EXPECT_THAT(ask("www.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_EQ(general.count("www.example.org"), 0u);
  // The cut still holds among the names of one zone.
  EXPECT_THAT(ask("gone.deep.corp.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_THAT(ask("www.gone.deep.corp.example.org.").text, StartsWith("NXDOMAIN"));
  EXPECT_EQ(deep.count("www.gone.deep.corp.example.org"), 0u);
  // A zone that a reload adds is not denied by what the servers above it said before.
  config_.zones["late.example.org"] = {zone.server()};
  reconfigure(config_);
  EXPECT_THAT(ask("www.late.example.org.").text, StartsWith("NOERROR"));
}

TEST_F(ForwarderTest, RefusesDeniedAddresses) {
  add();
  config_.deny_answers = {*IpPrefix::parse("192.0.2.0/24")};
  start();
  EXPECT_EQ(ask().text, "SERVFAIL EDE 15");
}

// Any network may announce a domain of a link; only the operator writes upstream.zones.
TEST_F(ForwarderTest, RefusesDeniedAddressesOfDomainsOfLinks) {
  add();
  config_.deny_answers = {*IpPrefix::parse("192.0.2.0/24")};
  config_.zones["corp.example.org"] = config_.servers;
  config_.zones["lab.corp.example.org"] = config_.servers;
  config_.link_zones = {"lab.corp.example.org"};
  start();
  EXPECT_THAT(ask("a.corp.example.org.").text, StartsWith("NOERROR"));
  EXPECT_EQ(ask("a.lab.corp.example.org.").text, "SERVFAIL EDE 15");
}

// A loop: what the upstream is sent comes back as a client's question.
TEST_F(ForwarderTest, FindsAnUpstreamThatLeadsBackToUs) {
  add();
  start();
  const auto state = shared_->upstreams.state_of(upstreams_[0]->server());
  const std::string name = state->loop_label() + ".loop-check.meshdns.internal.";
  EXPECT_THAT(ask(name).text, StartsWith("SERVFAIL"));
  EXPECT_EQ(events_.loops, 1);
  EXPECT_THAT(std::string(ask("b.example.org.").outcome.message->ede_text()),
              HasSubstr("forwards back"));
}

}  // namespace
}  // namespace meshdns::dnsd::test
