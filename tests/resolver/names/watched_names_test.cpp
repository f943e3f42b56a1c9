// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/watched_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/resolver/names/message_builder.hpp"

namespace meshdns::resolver {
namespace {

using registry::ResolvedName;
using State = ResolvedName::State;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

IpAddress ip(std::string_view text) { return *IpAddress::parse(text); }

Answer addresses(const std::vector<std::string_view>& texts, seconds ttl = seconds{30}) {
  Answer answer;
  answer.status = Answer::Status::Addresses;
  for (const auto text : texts) answer.addresses.push_back(ip(text));
  answer.ttl = ttl;
  return answer;
}
Answer negative(Answer::Status status, seconds ttl = seconds{5}) {
  Answer answer;
  answer.status = status;
  answer.ttl = ttl;
  return answer;
}
Answer failure(std::string error = "timeout") {
  Answer answer;
  answer.error = std::move(error);
  return answer;
}

std::string print(const ResolvedName& name) {
  constexpr const char* kStates[] = {"pending", "resolved", "no-addresses", "failed"};
  std::string text = name.host + " " + kStates[static_cast<int>(name.state)];
  for (const IpAddress& address : name.addresses) text.append(" ").append(address.to_string());
  return text;
}

// The engine with an upstream that answers from two maps; time passes only by advance().
class WatchedNamesTest : public testing::Test {
 protected:
  void watch(const std::string& host, std::string_view ns = "shop") {
    names_.watch(host, ns, now_);
  }

  // Runs everything that is due up to `duration` from now, each lookup ending at once.
  void advance(milliseconds duration) {
    const TimePoint end = now_ + duration;
    while (true) {
      step();
      const auto next = names_.next_wakeup();
      if (!next || *next > end) break;
      now_ = std::max(now_, *next);
    }
    now_ = end;
  }
  void step() {
    for (auto& name : names_.expire(now_)) events_.push_back(print(name.name));
    for (const DueLookup& due : names_.take_due(now_)) {
      asked_.push_back(due.host + " " + std::string(to_string(due.id.family)));
      const bool v4 = due.id.family == Family::V4;
      Answer answer = v4 ? a_ : aaaa_;
      if (auto event = names_.finish(due.id, std::move(answer), now_))
        events_.push_back(print(event->name));
    }
  }
  std::vector<std::string> take_events() { return std::exchange(events_, {}); }

  TimePoint now_{seconds{1'000}};
  ResolverPolicy policy_;
  WatchedNames names_{policy_, 1};
  Answer a_ = addresses({"192.0.2.1"});
  Answer aaaa_ = negative(Answer::Status::NoData);
  std::vector<std::string> asked_;
  std::vector<std::string> events_;
};

TEST_F(WatchedNamesTest, AsksForBothFamiliesOnceAndTellsOnce) {
  aaaa_ = addresses({"2001:db8::1"});
  watch("db.example.org");
  EXPECT_EQ(print(*names_.find("db.example.org", "shop")), "db.example.org pending");
  step();
  EXPECT_THAT(asked_, testing::ElementsAre("db.example.org A", "db.example.org AAAA"));
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.1 2001:db8::1"));
}

TEST_F(WatchedNamesTest, HasNoMoreLookupsInFlightThanItsLimit) {
  policy_.max_in_flight = 5;
  WatchedNames names(policy_, 1);
  for (int i = 0; i < 20; ++i) names.watch("n" + std::to_string(i) + ".example.org", "shop", now_);
  std::vector<DueLookup> in_flight = names.take_due(now_);
  for (int ended = 0; ended < 35; ++ended) {
    ASSERT_THAT(in_flight, SizeIs(5));
    EXPECT_THAT(names.take_due(now_), IsEmpty());
    names.finish(in_flight.front().id, addresses({"192.0.2.1"}), now_);
    in_flight.erase(in_flight.begin());
    for (const DueLookup& due : names.take_due(now_)) in_flight.push_back(due);
  }
}

TEST_F(WatchedNamesTest, WatchingTwiceIsWatchingOnce) {
  EXPECT_TRUE(names_.watch("db.example.org", "shop", now_));
  EXPECT_TRUE(names_.watch("db.example.org", "shop", now_));
  step();
  EXPECT_THAT(asked_, SizeIs(2));
}

TEST_F(WatchedNamesTest, RefreshesBeforeTheTtlEnds) {
  aaaa_ = addresses({"2001:db8::1"});
  watch("db.example.org");
  step();
  asked_.clear();
  advance(milliseconds{23'999});
  EXPECT_THAT(asked_, IsEmpty());
  advance(milliseconds{4'501});
  EXPECT_THAT(asked_, SizeIs(2));
}

TEST_F(WatchedNamesTest, TellsOnlyChangesOfTheSet) {
  a_ = addresses({"192.0.2.1", "192.0.2.2"}, seconds{1});
  watch("db.example.org");
  advance(seconds{5});
  EXPECT_THAT(take_events(), SizeIs(1));
  a_ = addresses({"192.0.2.2", "192.0.2.1"}, seconds{1});
  advance(seconds{5});
  EXPECT_THAT(take_events(), IsEmpty());
  EXPECT_EQ(print(*names_.find("db.example.org", "shop")),
            "db.example.org resolved 192.0.2.2 192.0.2.1");  // the latest order, untold
  a_ = addresses({"192.0.2.3"}, seconds{1});
  advance(seconds{5});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.3"));
}

TEST_F(WatchedNamesTest, TellsOrderWhereItCounts) {
  a_ = addresses({"192.0.2.1", "192.0.2.2"}, seconds{1});
  watch("db.example.org");
  names_.watch_order("db.example.org", "shop", true);
  step();
  a_ = addresses({"192.0.2.2", "192.0.2.1"}, seconds{1});
  advance(seconds{3});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.1 192.0.2.2",
                                                  "db.example.org resolved 192.0.2.2 192.0.2.1"));
}

TEST_F(WatchedNamesTest, KeepsTheLastGoodAnswerUntilItIsTooStale) {
  watch("db.example.org");
  step();
  take_events();
  a_ = aaaa_ = failure();
  advance(seconds{3'600});
  EXPECT_THAT(take_events(), IsEmpty());
  const auto status = names_.status(now_);
  EXPECT_TRUE(status[0].families[0].stale);
  EXPECT_EQ(status[0].families[0].last_error, "timeout");
  advance(seconds{31});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org failed"));
  EXPECT_EQ(names_.counters().names_failed, 1u);
}

TEST_F(WatchedNamesTest, ListsNamesThatFailAndSinceWhen) {
  const TimePoint start = now_;
  aaaa_ = addresses({"2001:db8::1"});
  watch("db.example.org");
  step();
  EXPECT_EQ(names_.without_address(10, now_).count, 0U);
  a_ = aaaa_ = failure();
  watch("new.example.org");
  step();
  advance(seconds{60});
  const FailingNames none = names_.without_address(10, now_);
  ASSERT_EQ(none.count, 1U);
  EXPECT_EQ(none.first[0].host, "new.example.org");
  EXPECT_EQ(none.first[0].ns, "shop");
  EXPECT_EQ(none.first[0].reason, "timeout");
  EXPECT_EQ(none.first[0].since, start);
  EXPECT_EQ(names_.without_address(0, now_).count, 1U);
  EXPECT_THAT(names_.without_address(0, now_).first, IsEmpty());
  const FailingNames old = names_.with_old_addresses(10, now_);
  ASSERT_EQ(old.count, 1U) << "one name, although both of its lookups failed";
  EXPECT_EQ(old.first[0].host, "db.example.org");
  EXPECT_EQ(old.first[0].reason, "timeout");
  EXPECT_GT(old.first[0].since, start);
  EXPECT_LE(old.first[0].since, start + seconds{30});
  a_ = addresses({"192.0.2.1"});
  aaaa_ = addresses({"2001:db8::1"});
  advance(seconds{60});
  EXPECT_EQ(names_.without_address(10, now_).count, 0U);
  EXPECT_EQ(names_.with_old_addresses(10, now_).count, 0U);
}

TEST_F(WatchedNamesTest, RecoversFromFailure) {
  a_ = aaaa_ = failure();
  watch("db.example.org");
  step();
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org failed"));
  a_ = addresses({"192.0.2.1"});
  advance(milliseconds{1'300});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.1"));
  EXPECT_EQ(names_.counters().names_failed, 0u);
}

TEST_F(WatchedNamesTest, FailuresBackOff) {
  a_ = aaaa_ = failure();
  watch("db.example.org");
  advance(seconds{300});
  // 1+2+4+8+16 s, then every 30 s +-25%, for each family: 12..18 tries.
  EXPECT_GE(asked_.size(), 2u * 12);
  EXPECT_LE(asked_.size(), 2u * 18);
}

// A server that loses AAAA queries costs IPv4 neither addresses nor extra queries.
TEST_F(WatchedNamesTest, OneFamilysFailureLeavesTheOtherAlone) {
  a_ = addresses({"192.0.2.1"}, seconds{30});
  aaaa_ = failure();
  watch("db.example.org");
  advance(seconds{120});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.1"));
  EXPECT_LE(std::ranges::count(asked_, "db.example.org A"), 5);
}

TEST_F(WatchedNamesTest, AnAbsentNameDisplacesTheLastGoodAnswer) {
  watch("db.example.org");
  step();
  take_events();
  a_ = aaaa_ = negative(Answer::Status::NoName);
  advance(seconds{30});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org no-addresses"));
}

TEST_F(WatchedNamesTest, ANewNameIsSeenWithinTheNegativeTtl) {
  a_ = aaaa_ = negative(Answer::Status::NoName, seconds{3'600});
  watch("db.example.org");
  step();
  take_events();
  a_ = addresses({"192.0.2.1"});
  advance(seconds{30});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org resolved 192.0.2.1"));
}

TEST_F(WatchedNamesTest, FailureAfterAnAbsentNameIsNotYetAFailure) {
  a_ = aaaa_ = negative(Answer::Status::NoData);
  watch("db.example.org");
  step();
  a_ = aaaa_ = failure();
  advance(seconds{600});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org no-addresses"));
}

TEST_F(WatchedNamesTest, TheFirstResultWaitsForTheOtherFamilyButNotForLong) {
  watch("db.example.org");
  const auto due = names_.take_due(now_);
  EXPECT_FALSE(names_.finish(due[0].id, addresses({"192.0.2.1"}), now_));
  EXPECT_THAT(names_.expire(now_ + milliseconds{499}), IsEmpty());
  EXPECT_EQ(names_.next_wakeup(), now_ + milliseconds{500});
  const auto told = names_.expire(now_ + milliseconds{500});
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(print(told[0].name), "db.example.org resolved 192.0.2.1");
  const auto more = names_.finish(due[1].id, addresses({"2001:db8::1"}), now_ + milliseconds{900});
  ASSERT_TRUE(more);
  EXPECT_EQ(print(more->name), "db.example.org resolved 192.0.2.1 2001:db8::1");
}

TEST_F(WatchedNamesTest, AnEmptyFamilyAloneIsNoResult) {
  watch("db.example.org");
  const auto due = names_.take_due(now_);
  EXPECT_FALSE(names_.finish(due[0].id, negative(Answer::Status::NoData), now_));
  EXPECT_THAT(names_.expire(now_ + seconds{3}), IsEmpty());
  EXPECT_EQ(names_.find("db.example.org", "shop")->state, State::Pending);
}

TEST_F(WatchedNamesTest, UnwatchCancelsAndLateAnswersAreIgnored) {
  watch("db.example.org");
  const auto due = names_.take_due(now_);
  EXPECT_EQ(names_.counters().in_flight, 2u);
  EXPECT_THAT(names_.unwatch("db.example.org", "shop", now_).cancelled, SizeIs(2));
  EXPECT_EQ(names_.counters().in_flight, 0u);
  watch("db.example.org");  // the same name again is another watch
  EXPECT_FALSE(names_.finish(due[0].id, addresses({"192.0.2.9"}), now_));
  EXPECT_EQ(names_.find("db.example.org", "shop")->state, State::Pending);
  EXPECT_THAT(names_.unwatch("other.example.org", "shop", now_).cancelled, IsEmpty());
}

TEST_F(WatchedNamesTest, ServeStaleZeroFailsAtTheEndOfTheTtlNotBefore) {
  policy_.refresh.serve_stale = seconds{0};
  names_.set_policy(policy_);
  a_ = addresses({"192.0.2.1"}, seconds{30});
  watch("db.example.org");
  step();
  take_events();
  a_ = aaaa_ = failure();
  advance(milliseconds{29'900});
  EXPECT_THAT(take_events(), IsEmpty());
  advance(milliseconds{100});
  EXPECT_THAT(take_events(), testing::ElementsAre("db.example.org failed"));
}

TEST_F(WatchedNamesTest, NeverMoreThanTheBoundInFlight) {
  for (int i = 0; i < 10'000; ++i) watch(numbered("n", i, ".example.org"));
  std::size_t done = 0;
  std::vector<DueLookup> flying = names_.take_due(now_);
  while (!flying.empty()) {
    ASSERT_LE(names_.counters().in_flight, 100u);
    ASSERT_LE(flying.size(), 100u);
    EXPECT_THAT(names_.take_due(now_), IsEmpty());
    // Half of them end, and make room for as many.
    const std::size_t half = (flying.size() + 1) / 2;
    for (std::size_t i = 0; i < half; ++i, ++done)
      names_.finish(flying[i].id, addresses({"192.0.2.1"}, seconds{3'600}), now_);
    flying.erase(flying.begin(), flying.begin() + static_cast<std::ptrdiff_t>(half));
    for (auto& due : names_.take_due(now_)) flying.push_back(std::move(due));
  }
  EXPECT_EQ(done, 20'000u);
  EXPECT_EQ(names_.counters().lookups, 20'000u);
}

// Ten thousand names of one TTL are asked for once per TTL and family, spread over the jitter.
TEST_F(WatchedNamesTest, TenThousandNamesAreRefreshedOncePerTtl) {
  for (int i = 0; i < 10'000; ++i)
    watch(numbered("n", i, ".example.org"), numbered("ns", i % 10, ""));
  a_ = addresses({"192.0.2.1"}, seconds{100});
  aaaa_ = addresses({"2001:db8::1"}, seconds{100});
  advance(seconds{1});
  EXPECT_EQ(asked_.size(), 20'000u);
  std::map<std::int64_t, int> per_second;
  asked_.clear();
  for (int second = 1; second < 99; ++second) {
    const std::size_t before = asked_.size();
    advance(seconds{1});
    per_second[second] = static_cast<int>(asked_.size() - before);
  }
  EXPECT_EQ(asked_.size(), 20'000u);
  for (const auto& [second, count] : per_second) EXPECT_LT(count, 2'500) << second;
  EXPECT_EQ(names_.counters().changes, 10'000u);
}

// Four thousand names of TTL 0 would need 8,000 lookups a second.
TEST_F(WatchedNamesTest, LargeSetsAreRefreshedLessOften) {
  for (int i = 0; i < 4'000; ++i) watch(numbered("n", i, ".example.org"));
  a_ = addresses({"192.0.2.1"}, seconds{0});
  aaaa_ = failure();
  advance(seconds{1});
  EXPECT_EQ(asked_.size(), 8'000u);
  asked_.clear();
  advance(seconds{100});
  EXPECT_LE(asked_.size(), 200u * 101);
  EXPECT_GE(asked_.size(), 150u * 100);
}

TEST_F(WatchedNamesTest, LookupsPerSecondAreBoundedWhateverComesAndGoes) {
  for (int second = 0; second < 200; ++second) {
    for (int i = 0; i < 1'000; ++i) watch(numbered("n", second * 1'000 + i, ".example.org"));
    advance(seconds{1});
    for (int i = 0; i < 1'000; ++i)
      names_.unwatch(numbered("n", second * 1'000 + i, ".example.org"), "shop", now_);
  }
  EXPECT_LE(asked_.size(), policy_.namespace_lookups_burst + 200u * 200);
}

TEST_F(WatchedNamesTest, OneNamespaceDoesNotDelayAnother) {
  a_ = aaaa_ = addresses({"192.0.2.1"}, seconds{0});
  for (int i = 0; i < 10'000; ++i) watch(numbered("n", i, ".example.org"), "crowded");
  // Lookups of the crowded namespace fill its share and do not end.
  EXPECT_THAT(names_.take_due(now_), SizeIs(policy_.max_in_flight_per_namespace));
  watch("db.example.org", "small");
  const auto due = names_.take_due(now_);
  ASSERT_THAT(due, SizeIs(2));
  EXPECT_EQ(due[0].host, "db.example.org");
}

TEST_F(WatchedNamesTest, NamespacesTakeTurns) {
  for (int i = 0; i < 1'000; ++i) watch(numbered("n", i, ".example.org"), "crowded");
  for (int i = 0; i < 5; ++i) watch(numbered("m", i, ".example.org"), "small");
  const auto due = names_.take_due(now_);
  std::size_t small = 0;
  for (std::size_t i = 0; i < 20; ++i) small += due[i].host.starts_with("m") ? 1 : 0;
  EXPECT_EQ(small, 10u);
}

// A tenant that lists another's names does not make them wait with its own.
TEST_F(WatchedNamesTest, EachNamespacePaysForItsOwnLookups) {
  for (int i = 0; i < 10'000 - 1; ++i) watch(numbered("n", i, ".example.org"), "crowded");
  watch("db.example.org", "crowded");
  EXPECT_THAT(names_.take_due(now_), SizeIs(policy_.max_in_flight_per_namespace));
  watch("db.example.org", "small");
  const auto due = names_.take_due(now_);
  ASSERT_THAT(due, SizeIs(2));
  EXPECT_EQ(due[0].host, "db.example.org");
  EXPECT_EQ(due[0].ns, "small");
  EXPECT_THAT(names_.unwatch("db.example.org", "small", now_).cancelled, SizeIs(2));
  EXPECT_EQ(names_.find("db.example.org", "small"), nullptr);
  EXPECT_NE(names_.find("db.example.org", "crowded"), nullptr);
}

TEST_F(WatchedNamesTest, NamesBeyondTheLimitWaitForRoom) {
  for (std::size_t i = 0; i < policy_.max_names_per_namespace; ++i)
    watch(numbered("n", static_cast<int>(i), ".example.org"));
  EXPECT_FALSE(names_.watch("one.example.org", "shop", now_));
  EXPECT_FALSE(names_.watch("two.example.org", "shop", now_));
  EXPECT_EQ(names_.counters().names_refused, 2u);
  EXPECT_TRUE(names_.watch("one.example.org", "bank", now_));
  EXPECT_EQ(names_.find("one.example.org", "shop"), nullptr);
  EXPECT_EQ(names_.unwatch("n0.example.org", "shop", now_).begun, "one.example.org");
  EXPECT_NE(names_.find("one.example.org", "shop"), nullptr);
  names_.unwatch("two.example.org", "shop", now_);
  EXPECT_EQ(names_.counters().names_refused, 0u);
}

TEST_F(WatchedNamesTest, RefreshAsksAgainAfterTheLookupUnderWay) {
  a_ = addresses({"192.0.2.1"}, seconds{3'600});
  aaaa_ = negative(Answer::Status::NoData, seconds{3'600});
  watch("db.example.org");
  const auto due = names_.take_due(now_);
  ASSERT_THAT(due, SizeIs(2));
  names_.refresh("db.example.org", "shop", now_);
  for (const DueLookup& each : due) names_.finish(each.id, Answer(a_), now_);
  EXPECT_THAT(names_.take_due(now_), IsEmpty()) << "not more often than the namespace's share";
  advance(seconds{5});
  EXPECT_THAT(asked_, SizeIs(2));
}

TEST_F(WatchedNamesTest, TellsTheAliasesOfTheLatestAnswer) {
  a_ = addresses({"192.0.2.1"}, seconds{1});
  a_.via = {"a.example.net"};
  watch("db.example.org");
  step();
  EXPECT_THAT(names_.find("db.example.org", "shop")->via, testing::ElementsAre("a.example.net"));
  EXPECT_THAT(take_events(), SizeIs(1));
  a_.via = {"b.example.net"};
  advance(seconds{5});
  EXPECT_THAT(take_events(), SizeIs(1)) << "the registry follows the new one";
}

TEST_F(WatchedNamesTest, TheEndOfAnOutageIsNotWaitedFor) {
  for (int i = 0; i < 100; ++i) watch(numbered("n", i, ".example.org"));
  a_ = aaaa_ = failure();
  advance(seconds{600});
  EXPECT_EQ(names_.counters().names_failed, 100u);
  asked_.clear();
  a_ = addresses({"192.0.2.1"});
  aaaa_ = addresses({"2001:db8::1"});
  // Somebody's turn comes at the latest after a back-off; from then on one second is enough.
  while (asked_.empty()) advance(milliseconds{100});
  advance(milliseconds{1'000});
  EXPECT_EQ(names_.counters().names_failed, 0u);
  EXPECT_LE(asked_.size(), 210u);
}

TEST_F(WatchedNamesTest, HastenFailedAsksWithinTheSpread) {
  a_ = aaaa_ = failure();
  watch("db.example.org");
  advance(seconds{600});
  asked_.clear();
  a_ = addresses({"192.0.2.1"});
  names_.hasten_failed(now_, milliseconds{1'000});
  advance(milliseconds{1'000});
  EXPECT_EQ(names_.find("db.example.org", "shop")->state, State::Resolved);
}

TEST_F(WatchedNamesTest, StatusTellsWhatAnOperatorAsks) {
  a_ = addresses({"192.0.2.1"}, seconds{100});
  aaaa_ = failure("REFUSED (asked 192.0.2.53:53)");
  watch("db.example.org");
  watch("api.example.org");
  step();
  now_ += seconds{1};
  auto status = names_.status(now_);
  ASSERT_THAT(status, SizeIs(2));
  std::ranges::sort(status, {}, [](const NameStatus& each) { return each.name.host; });
  EXPECT_EQ(status[0].name.host, "api.example.org");
  EXPECT_EQ(status[0].ns, "shop");
  const FamilyStatus& v4 = status[1].families[0];
  EXPECT_EQ(v4.last, Answer::Status::Addresses);
  EXPECT_EQ(v4.expires_in, milliseconds{99'000});
  EXPECT_GE(v4.next_refresh_in, milliseconds{79'000});
  EXPECT_EQ(v4.lookups, 1u);
  const FamilyStatus& v6 = status[1].families[1];
  EXPECT_EQ(v6.last_error, "REFUSED (asked 192.0.2.53:53)");
  EXPECT_EQ(v6.failures, 1u);
}

}  // namespace
}  // namespace meshdns::resolver
