// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/rate_limiter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dnsd/kernel/program/answer_maps.h"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
using Verdict = RateLimiter::Verdict;

IpAddress ip(const std::string& text) { return *IpAddress::parse(text); }

// How many of `count` queries at one moment are answered, as "answered/truncated/dropped".
std::string burst(RateLimiter& limiter, const IpAddress& client, std::uint64_t now, int count) {
  int seen[3] = {};
  for (int i = 0; i < count; ++i) ++seen[static_cast<int>(limiter.judge(client, now))];
  return std::to_string(seen[0]) + "/" + std::to_string(seen[1]) + "/" + std::to_string(seen[2]);
}

TEST(RateLimiterTest, IsOffByDefault) {
  RateLimiter limiter;
  EXPECT_FALSE(limiter.is_on());
  limiter.configure({});
  EXPECT_FALSE(limiter.is_on());
}

TEST(RateLimiterTest, AnswersASecondsWorthAtOnceAndThenAtTheRate) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 10, .slip = 0});
  const IpAddress client = ip("192.0.2.1");
  EXPECT_EQ(burst(limiter, client, kSecond, 100), "10/0/90");
  EXPECT_EQ(burst(limiter, client, kSecond + kSecond / 10, 5), "1/0/4");
  EXPECT_EQ(burst(limiter, client, 2 * kSecond, 100), "9/0/91");
  EXPECT_EQ(burst(limiter, client, 60 * kSecond, 100), "10/0/90") << "silence saves up no more";
}

TEST(RateLimiterTest, TheRateHoldsOverTimeWhateverTheFlood) {
  for (const std::uint32_t rate : {1U, 3U, 1000U, 1'000'000U}) {
    RateLimiter limiter;
    limiter.configure({.responses_per_second = rate, .slip = 0});
    std::uint64_t answered = 0;
    constexpr std::uint64_t kQueries = 400'000;
    constexpr std::uint64_t kSeconds = 4;
    for (std::uint64_t i = 0; i < kQueries; ++i)
      if (limiter.judge(ip("192.0.2.1"), kSecond + i * (kSeconds * kSecond / kQueries)) ==
          Verdict::Answer)
        ++answered;
    const std::uint64_t most = std::min<std::uint64_t>(kQueries, (kSeconds + 1) * rate);
    EXPECT_LE(answered, most) << rate;
    EXPECT_GE(answered, std::min<std::uint64_t>(kQueries, kSeconds * rate)) << rate;
  }
}

TEST(RateLimiterTest, EveryNthRefusedAnswerIsTruncated) {
  const struct {
    std::uint32_t slip;
    const char* seen;
  } cases[] = {{0, "10/0/90"}, {1, "10/90/0"}, {2, "10/45/45"}, {3, "10/30/60"}, {100, "10/0/90"}};
  for (const auto& c : cases) {
    RateLimiter limiter;
    limiter.configure({.responses_per_second = 10, .slip = c.slip});
    EXPECT_EQ(burst(limiter, ip("192.0.2.1"), kSecond, 100), c.seen) << c.slip;
  }
}

// A flood that is only a little over the limit has an answer between any two refusals.
TEST(RateLimiterTest, SlipsWithAFloodJustOverTheLimit) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 100, .slip = 2});
  int truncated = 0;
  for (std::uint64_t i = 0; i < 1'500; ++i)
    truncated += limiter.judge(ip("192.0.2.1"), i * kSecond / 150) == Verdict::Truncate ? 1 : 0;
  EXPECT_GT(truncated, 150);
}

TEST(RateLimiterTest, ANetworkIsOneClient) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 1, .slip = 0, .ipv4_prefix = 24, .ipv6_prefix = 64});
  const struct {
    const char* one;
    const char* other;
    bool is_same;
  } cases[] = {
      {"192.0.2.1", "192.0.2.255", true},
      {"198.51.100.1", "198.51.101.1", false},
      {"2001:db8::1", "2001:db8::ffff:1", true},
      {"2001:db8:1::1", "2001:db8:1:1::1", false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(limiter.judge(ip(c.one), kSecond), Verdict::Answer) << c.one;
    EXPECT_EQ(limiter.judge(ip(c.other), kSecond), c.is_same ? Verdict::Drop : Verdict::Answer)
        << c.other;
  }
}

TEST(RateLimiterTest, ManyClientsLeaveEachOtherTheirShare) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 5, .slip = 0});
  // One is over its limit; a flood of forged addresses, more than the table has places, never makes
  // another client that stays below the limit lose an answer.
  std::uint64_t now = kSecond;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const IpAddress forged =
        IpAddress::v4({10, static_cast<std::uint8_t>(i >> 16), static_cast<std::uint8_t>(i >> 8),
                       static_cast<std::uint8_t>(i)});
    EXPECT_EQ(limiter.judge(forged, now), Verdict::Answer);
    now += 10'000;
    if (i % 20'000 == 0) {
      EXPECT_EQ(limiter.judge(ip("192.0.2.7"), now), Verdict::Answer);
    }
  }
}

TEST(RateLimiterTest, AFloodOfForgedAddressesIsNoPardon) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 5, .slip = 0});
  std::uint64_t now = kSecond;
  int answered = 0;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    limiter.judge(IpAddress::v4({10, static_cast<std::uint8_t>(i >> 16),
                                 static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)}),
                  now);
    now += 10'000;
    answered += limiter.judge(ip("192.0.2.7"), now) == Verdict::Answer ? 1 : 0;
  }
  EXPECT_LE(answered, 5 * (2 + 1)) << "two seconds at its rate, and the burst before";
}

TEST(RateLimiterTest, ForgetsWhatWasCountedWithAnotherLimitOnly) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 1, .slip = 0});
  EXPECT_EQ(burst(limiter, ip("192.0.2.1"), kSecond, 2), "1/0/1");
  limiter.configure({.responses_per_second = 1, .slip = 0});
  EXPECT_EQ(burst(limiter, ip("192.0.2.1"), kSecond, 2), "0/0/2") << "a reload is no pardon";
  limiter.configure({.responses_per_second = 2, .slip = 0});
  EXPECT_EQ(burst(limiter, ip("192.0.2.1"), kSecond, 3), "2/0/1");
  limiter.configure({});
  EXPECT_FALSE(limiter.is_on());
}

// Two workers, or a worker and the kernel.
TEST(RateLimiterTest, SharesAccountsWithOthers) {
  std::vector<std::uint64_t> accounts(MESHDNS_ACCOUNTS);
  RateLimiter one, other;
  for (RateLimiter* limiter : {&one, &other}) {
    limiter->configure({.responses_per_second = 10, .slip = 0});
    limiter->share(RateAccounts(accounts));
  }
  EXPECT_EQ(burst(one, ip("192.0.2.1"), kSecond, 4), "4/0/0");
  EXPECT_EQ(burst(other, ip("192.0.2.1"), kSecond, 100), "6/0/94");
  EXPECT_EQ(burst(one, ip("192.0.2.1"), kSecond, 100), "0/0/100");
  EXPECT_EQ(burst(one, ip("192.0.2.2"), kSecond, 100), "10/0/90");
  EXPECT_EQ(burst(one, ip("192.0.2.1"), 2 * kSecond, 100), "10/0/90");
  one.share({});
  EXPECT_EQ(burst(one, ip("192.0.2.1"), 2 * kSecond, 100), "10/0/90") << "alone again";
}

TEST(RateLimiterTest, CountsAloneWhereAnotherClientHasTheAccount) {
  // Another client's, in every account, paid for the next second.
  constexpr std::uint64_t kOthers = std::uint64_t{0x1234} << MESHDNS_ACCOUNT_TIME_BITS;
  std::vector<std::uint64_t> accounts(MESHDNS_ACCOUNTS, kOthers | 2 * kSecond / 1000);
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 10, .slip = 0});
  limiter.share(RateAccounts(accounts));
  EXPECT_EQ(burst(limiter, ip("192.0.2.1"), kSecond, 100), "10/0/90");
  EXPECT_EQ(burst(limiter, ip("192.0.2.1"), 3 * kSecond, 100), "10/0/90") << "it is free now";
  EXPECT_EQ(std::ranges::count(accounts, kOthers | 2 * kSecond / 1000), MESHDNS_ACCOUNTS - 1);
}

// The accounts are shared with the kernel.  The limiter still counts what it refuses, so that every
// n-th refusal is truncated, however many other clients come between.
TEST(RateLimiterTest, SlipsWithSharedAccountsAndForgedAddresses) {
  std::vector<std::uint64_t> accounts(MESHDNS_ACCOUNTS);
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 10, .slip = 100});
  limiter.share(RateAccounts(accounts));
  constexpr int kQueries = 2'000;
  constexpr std::uint32_t kForged = 120;  // for each of the client's queries: 20,000 a second
  std::uint64_t now = kSecond;
  int refused = 0;
  int truncated = 0;
  for (std::uint32_t i = 0; i < kQueries * kForged; ++i) {
    limiter.judge(IpAddress::v4({10, static_cast<std::uint8_t>(i >> 16),
                                 static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)}),
                  now);
    now += kSecond / 20'000;
    if (i % kForged != 0) continue;
    const Verdict verdict = limiter.judge(ip("192.0.2.7"), now);
    refused += verdict == Verdict::Answer ? 0 : 1;
    truncated += verdict == Verdict::Truncate ? 1 : 0;
  }
  EXPECT_GT(refused, kQueries * 9 / 10);
  EXPECT_GE(truncated, refused / 100 - 3);
}

TEST(RateLimiterTest, NamesAClientOverTheLimitOnce) {
  RateLimiter limiter;
  limiter.configure({.responses_per_second = 1, .slip = 0});
  burst(limiter, ip("192.0.2.1"), kSecond, 1);
  EXPECT_FALSE(limiter.take_limited());
  burst(limiter, ip("192.0.2.1"), kSecond, 10);
  EXPECT_EQ(limiter.take_limited(), ip("192.0.2.1"));
  EXPECT_FALSE(limiter.take_limited());
  // Once a second.
  burst(limiter, ip("192.0.2.1"), 2 * kSecond - 1, 10);
  EXPECT_FALSE(limiter.take_limited());
  burst(limiter, ip("192.0.2.2"), 2 * kSecond, 10);
  EXPECT_EQ(limiter.take_limited(), ip("192.0.2.2"));
}

}  // namespace
}  // namespace meshdns::dnsd
