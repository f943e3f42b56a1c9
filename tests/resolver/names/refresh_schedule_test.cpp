// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/refresh_schedule.hpp"

#include <gtest/gtest.h>

namespace meshdns::resolver {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kStart{seconds{1'000}};
const RefreshPolicy kPolicy{};

milliseconds wait_of(const RefreshSchedule& schedule, TimePoint now) {
  return duration_cast<milliseconds>(schedule.next() - now);
}

TEST(RefreshScheduleTest, IsDueAtOnceAtFirst) { EXPECT_EQ(RefreshSchedule(kStart).next(), kStart); }

TEST(RefreshScheduleTest, RefreshesBeforeTheTtlEndsWithinTheJittersBounds) {
  struct Case {
    const char* name;
    seconds ttl;
    milliseconds earliest;
    milliseconds latest;
  };
  const Case cases[] = {
      {"ordinary", seconds{100}, milliseconds{80'000}, milliseconds{95'000}},
      {"zero is one second", seconds{0}, milliseconds{800}, milliseconds{950}},
      {"a day is one hour", seconds{86'400}, milliseconds{2'880'000}, milliseconds{3'420'000}},
      {"largest", seconds{0x7fffffff}, milliseconds{2'880'000}, milliseconds{3'420'000}},
  };
  for (const Case& test : cases) {
    for (const double chance : {0.0, 0.3, 0.999999}) {
      RefreshSchedule schedule(kStart);
      schedule.on_answer(kStart, test.ttl, kPolicy, chance);
      EXPECT_GE(wait_of(schedule, kStart), test.earliest) << test.name;
      EXPECT_LE(wait_of(schedule, kStart), test.latest) << test.name;
      EXPECT_LT(schedule.next(), *schedule.expires()) << test.name;
    }
  }
}

TEST(RefreshScheduleTest, SpreadsNamesOverTheJitter) {
  RefreshSchedule early(kStart);
  RefreshSchedule late(kStart);
  early.on_answer(kStart, seconds{100}, kPolicy, 0.0);
  late.on_answer(kStart, seconds{100}, kPolicy, 0.9);
  EXPECT_GE(late.next() - early.next(), seconds{13});
}

// A cache at the upstream gives what is left of the TTL: asking at 80% of that again and again
// would cost five queries per TTL.
TEST(RefreshScheduleTest, WaitsForTheEndOfACachesRemainder) {
  RefreshSchedule schedule(kStart);
  schedule.on_answer(kStart, seconds{30}, kPolicy, 0.5);
  const TimePoint second = kStart + seconds{27};
  schedule.on_answer(second, seconds{3}, kPolicy, 0.5);
  EXPECT_GE(schedule.next(), second + seconds{3});
  EXPECT_LE(schedule.next(), second + milliseconds{3'250});
}

TEST(RefreshScheduleTest, TakesATtlThatWasLoweredForGoodAsItIs) {
  RefreshSchedule schedule(kStart);
  schedule.on_answer(kStart, seconds{3'600}, kPolicy, 0.5);
  schedule.on_answer(kStart, seconds{60}, kPolicy, 0.5);
  schedule.on_answer(kStart, seconds{60}, kPolicy, 0.5);
  EXPECT_LT(wait_of(schedule, kStart), seconds{58});
}

// The value after a remainder is the TTL, however short: it may have been lowered again.
TEST(RefreshScheduleTest, TakesAnyTtlAfterARemainderAsItIs) {
  for (const seconds ttl : {seconds{600}, seconds{60}, seconds{10}, seconds{1}}) {
    RefreshSchedule schedule(kStart);
    schedule.on_answer(kStart, seconds{3'600}, kPolicy, 0.5);
    schedule.on_answer(kStart, seconds{60}, kPolicy, 0.5);
    schedule.on_answer(kStart, ttl, kPolicy, 0.5);
    EXPECT_LT(wait_of(schedule, kStart), ttl) << ttl.count();
  }
}

TEST(RefreshScheduleTest, BacksOffExponentiallyUpToTheBound) {
  const milliseconds expected[] = {milliseconds{1'000},  milliseconds{2'000},  milliseconds{4'000},
                                   milliseconds{8'000},  milliseconds{16'000}, milliseconds{30'000},
                                   milliseconds{30'000}, milliseconds{30'000}};
  for (const double chance : {0.0, 0.5, 0.999}) {
    RefreshSchedule schedule(kStart);
    for (const milliseconds base : expected) {
      schedule.on_failure(kStart, kPolicy, chance);
      EXPECT_GE(wait_of(schedule, kStart), base * 3 / 4);
      EXPECT_LE(wait_of(schedule, kStart), base * 5 / 4);
    }
  }
}

TEST(RefreshScheduleTest, BackOffDoesNotOverflow) {
  RefreshSchedule schedule(kStart);
  for (int i = 0; i < 1'000; ++i) schedule.on_failure(kStart, kPolicy, 0.5);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{30'000});
}

TEST(RefreshScheduleTest, StartsOverAfterASuccess) {
  RefreshSchedule schedule(kStart);
  for (int i = 0; i < 5; ++i) schedule.on_failure(kStart, kPolicy, 0.5);
  schedule.on_answer(kStart, seconds{10}, kPolicy, 0.5);
  schedule.on_failure(kStart, kPolicy, 0.5);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{1'000});
}

TEST(RefreshScheduleTest, LastGoodAnswerIsUsableUntilStaleEndsAndOnlyLimitedByFailures) {
  RefreshSchedule schedule(kStart);
  EXPECT_FALSE(schedule.unusable(kPolicy));
  schedule.on_answer(kStart, seconds{10}, kPolicy, 0.5);
  EXPECT_FALSE(schedule.unusable(kPolicy));
  schedule.on_failure(kStart + seconds{9}, kPolicy, 0.5);
  EXPECT_EQ(schedule.unusable(kPolicy), kStart + seconds{10} + kPolicy.serve_stale);
}

// Failures do not move the end of a stale answer's life.
TEST(RefreshScheduleTest, StaleLifeIsAbsolute) {
  RefreshSchedule schedule(kStart);
  schedule.on_answer(kStart, seconds{10}, kPolicy, 0.5);
  schedule.on_failure(kStart + seconds{9}, kPolicy, 0.5);
  const auto end = schedule.unusable(kPolicy);
  for (int i = 0; i < 100; ++i) schedule.on_failure(kStart + seconds{10 + 30 * i}, kPolicy, 0.5);
  EXPECT_EQ(schedule.unusable(kPolicy), end);
}

TEST(RefreshScheduleTest, NegativeAnswersFollowTheSoaWithinBounds) {
  RefreshSchedule schedule(kStart);
  schedule.on_negative(kStart, seconds{10}, kPolicy, 0.0);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{8'000});
  schedule.on_negative(kStart, seconds{3'600}, kPolicy, 0.0);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{24'000});
  schedule.on_negative(kStart, seconds{0}, kPolicy, 0.0);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{800});
  schedule.on_negative(kStart, std::nullopt, kPolicy, 0.0);
  EXPECT_EQ(wait_of(schedule, kStart), milliseconds{4'000});
}

TEST(RefreshScheduleTest, HastensOnlyWhatFailed) {
  RefreshSchedule schedule(kStart);
  schedule.on_answer(kStart, seconds{100}, kPolicy, 0.5);
  EXPECT_FALSE(schedule.hasten(kStart + seconds{1}));
  for (int i = 0; i < 5; ++i) schedule.on_failure(kStart, kPolicy, 0.5);
  EXPECT_TRUE(schedule.hasten(kStart + seconds{1}));
  EXPECT_EQ(schedule.next(), kStart + seconds{1});
  EXPECT_FALSE(schedule.hasten(kStart + seconds{2}));
}

}  // namespace
}  // namespace meshdns::resolver
