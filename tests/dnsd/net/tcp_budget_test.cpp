// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/tcp_budget.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

using enum TcpBudget::Verdict;

IpAddress ip(const std::string& text) { return *IpAddress::parse(text); }

// Workers that note what they are asked to close, by slot, and connections by slot.
class TcpBudgetTest : public testing::Test {
 protected:
  void set(std::uint32_t all, std::uint32_t per_client) {
    TcpLimits limits;
    limits.max_connections = all;
    limits.max_connections_per_client = per_client;
    budget_.set_limits(limits);
    for (const unsigned worker : {0U, 1U})
      budget_.join(worker,
                   [this](const TcpBudget::ConnectionId& id) { asked_.push_back(id.slot); });
  }
  TcpBudget::Verdict open(const std::string& client, std::uint64_t now) {
    auto [verdict, place] = budget_.admit(ip(client), {next_ % 2, next_, 0}, now);
    if (verdict == Granted) places_.emplace(next_, std::move(place));
    ++next_;
    return verdict;
  }
  // The worker closes what it was asked to.
  std::vector<std::uint32_t> close_asked() {
    for (const std::uint32_t slot : asked_) places_.erase(slot);
    return std::exchange(asked_, {});
  }

  TcpBudget budget_{TcpLimits{}};
  std::vector<std::uint32_t> asked_;
  std::map<std::uint32_t, TcpBudget::Place> places_;
  std::uint32_t next_ = 0;
};

using Slots = std::vector<std::uint32_t>;

TEST_F(TcpBudgetTest, CountsTheAddressesOfOneIpv6NetworkAsOneClient) {
  set(100, 2);
  EXPECT_EQ(open("2001:db8:0:1::1", 10), Granted);
  EXPECT_EQ(open("2001:db8:0:1:ffff::2", 11), Granted);
  EXPECT_EQ(open("2001:db8:0:2::1", 12), Granted);  // another /64
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(open("2001:db8:0:1::3", 13), Granted);  // the third of the first
  EXPECT_EQ(close_asked(), Slots{0});
  places_.at(1).set_busy();
  places_.at(3).set_busy();
  EXPECT_EQ(open("2001:db8:0:1::4", 14), ClientShareInUse);
  EXPECT_EQ(open("2001:db8:0:2::4", 15), Granted);
}

TEST_F(TcpBudgetTest, AWorkerThatDoesNotKeepUpLeavesItToTheOthersToMakeRoom) {
  constexpr std::uint32_t kPerWorker = 800;
  set(4000, 2 * kPerWorker);
  // The first worker has the oldest ones.
  for (std::uint32_t i = 0; i < 2 * kPerWorker; ++i) {
    next_ = 2 * (i % kPerWorker) + i / kPerWorker;
    ASSERT_EQ(open("192.0.2.1", 10 + i), Granted);
  }
  next_ = 4 * kPerWorker;
  for (std::uint32_t i = 0; i < kPerWorker; ++i)
    ASSERT_EQ(open("192.0.2.1", 5000 + i), Granted) << "after " << i;
  std::size_t of_second = 0;
  for (const std::uint32_t slot : asked_) of_second += slot % 2;
  EXPECT_EQ(asked_.size(), kPerWorker);
  EXPECT_GT(of_second, 0U);
  EXPECT_LT(of_second, kPerWorker / 2);
}

TEST_F(TcpBudgetTest, HasTheOldestIdleConnectionOfAClientAtItsLimitMakeRoom) {
  set(100, 3);
  for (const std::uint64_t now : {10, 11, 12}) EXPECT_EQ(open("192.0.2.1", now), Granted);
  places_.at(0).set_idle_since(20);  // the first is active again, so that the second is the oldest
  EXPECT_EQ(open("192.0.2.1", 30), Granted);
  EXPECT_EQ(close_asked(), Slots{1});
  EXPECT_EQ(open("192.0.2.1", 31), Granted);
  EXPECT_EQ(close_asked(), Slots{2});
  EXPECT_EQ(open("192.0.2.1", 32), Granted);
  EXPECT_EQ(close_asked(), Slots{0});
  EXPECT_EQ(open("192.0.2.2", 33), Granted);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(budget_.open(), 4u);
}

TEST_F(TcpBudgetTest, KeepsConnectionsThatOweAnAnswer) {
  set(100, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(open("192.0.2.1", 10), Granted);
  places_.at(0).set_busy();
  places_.at(1).set_busy();
  EXPECT_EQ(open("192.0.2.1", 10), Granted);  // in the same millisecond
  EXPECT_EQ(close_asked(), Slots{2});
  places_.at(3).set_busy();
  EXPECT_EQ(open("192.0.2.1", 12), ClientShareInUse);
  EXPECT_TRUE(asked_.empty());
  places_.at(1).set_idle_since(15);
  EXPECT_EQ(open("192.0.2.1", 20), Granted);
  EXPECT_EQ(close_asked(), Slots{1});
  EXPECT_EQ(budget_.open(), 3u);
}

TEST_F(TcpBudgetTest, CountsAConnectionAgainThatHasBecomeBusyMeanwhile) {
  set(100, 1);
  EXPECT_EQ(open("192.0.2.1", 10), Granted);
  EXPECT_EQ(open("192.0.2.1", 11), Granted);
  EXPECT_EQ(asked_, Slots{0});
  places_.at(0).set_busy();
  places_.at(0).keep(12);
  places_.at(0).keep(12);  // the second time it is not asked for
  EXPECT_EQ(budget_.open(), 2u);
  // Both make room for the next one, as soon as they rest.
  asked_.clear();
  places_.at(0).set_idle_since(13);
  EXPECT_EQ(open("192.0.2.1", 20), Granted);
  EXPECT_EQ(close_asked(), (Slots{1, 0}));
  EXPECT_EQ(budget_.open(), 1u);
}

// A worker that keeps what it was asked to close has done with the question.
TEST_F(TcpBudgetTest, WorkersThatKeepConnectionsAreStillAsked) {
  set(100, 1);
  EXPECT_EQ(open("192.0.2.1", 10), Granted);
  for (std::uint64_t now = 11; now < 3'000; ++now) {
    const std::uint32_t kept = next_ - 1;
    ASSERT_EQ(open("192.0.2.1", now), Granted);
    ASSERT_EQ(asked_, Slots{kept});
    places_.at(kept).keep(now);  // older than the new one by its number
    asked_.clear();
    places_.erase(kept);
  }
}

TEST_F(TcpBudgetTest, AConnectionThatIsKeptIsNoLongerTheLongestIdle) {
  set(100, 2);
  for (const std::uint64_t now : {10, 11, 12}) EXPECT_EQ(open("192.0.2.1", now), Granted);
  EXPECT_EQ(std::exchange(asked_, {}), Slots{0});
  places_.at(0).keep(20);
  EXPECT_EQ(open("192.0.2.1", 30), Granted);
  EXPECT_EQ(close_asked(), (Slots{1, 2}));
}

TEST_F(TcpBudgetTest, HasTheLargestClientMakeRoomWhenAllAreInUse) {
  set(6, 5);
  EXPECT_EQ(open("192.0.2.1", 10), Granted);
  for (const std::uint64_t now : {11, 12, 13}) EXPECT_EQ(open("192.0.2.2", now), Granted);
  for (const std::uint64_t now : {14, 15}) EXPECT_EQ(open("192.0.2.3", now), Granted);
  EXPECT_EQ(open("192.0.2.4", 20), Granted);
  EXPECT_EQ(close_asked(), Slots{1});
  // Two each, and the longest idle of them pays.
  EXPECT_EQ(open("192.0.2.5", 21), Granted);
  EXPECT_EQ(close_asked(), Slots{2});
  EXPECT_EQ(open("192.0.2.6", 22), Granted);
  EXPECT_EQ(close_asked(), Slots{4});
  // One each: the longest idle of all.
  EXPECT_EQ(open("192.0.2.7", 23), Granted);
  EXPECT_EQ(close_asked(), Slots{0});
  for (auto& [slot, place] : places_) place.set_busy();
  EXPECT_EQ(open("192.0.2.8", 30), AllInUse);
  EXPECT_EQ(budget_.open(), 6u);
}

TEST_F(TcpBudgetTest, CountsIPv6BySlash64AndMappedIPv4AsIPv4) {
  set(100, 2);
  EXPECT_EQ(open("2001:db8::1", 10), Granted);
  EXPECT_EQ(open("2001:db8::ffff:2", 11), Granted);
  EXPECT_EQ(open("2001:db8:0:0:8000::3", 12), Granted);
  EXPECT_EQ(close_asked(), Slots{0});
  EXPECT_EQ(open("2001:db8:0:1::1", 13), Granted);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(open("192.0.2.1", 14), Granted);
  EXPECT_EQ(open("::ffff:192.0.2.1", 15), Granted);
  EXPECT_EQ(open("192.0.2.1", 16), Granted);
  EXPECT_EQ(close_asked(), Slots{4});
  EXPECT_EQ(open("192.0.2.2", 17), Granted);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(TcpBudgetTest, AsksAWorkerThatDoesNotCloseForNoMoreThanSome) {
  set(100'000, 1);
  int granted = 0;
  for (int i = 0; i < 4000; ++i) granted += open("192.0.2.1", 10 + i) == Granted ? 1 : 0;
  EXPECT_LT(granted, 1100);
  EXPECT_LT(asked_.size(), 1100u);
  close_asked();
  EXPECT_EQ(open("192.0.2.1", 5000), Granted);
}

TEST_F(TcpBudgetTest, ShortensTheIdleTimeoutWhenNearlyAllAreInUse) {
  set(5, 5);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(open("192.0.2.1", 10), Granted);
  EXPECT_EQ(budget_.idle_timeout(), TcpLimits().idle_timeout);
  EXPECT_EQ(open("192.0.2.1", 10), Granted);
  EXPECT_EQ(budget_.idle_timeout(), TcpLimits().busy_idle_timeout);
  places_.clear();
  EXPECT_EQ(budget_.open(), 0u);
  EXPECT_EQ(budget_.idle_timeout(), TcpLimits().idle_timeout);
}

TEST_F(TcpBudgetTest, ComesDownToALowerLimit) {
  set(100, 50);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(open("192.0.2.1", 10 + i), Granted);
  set(100, 10);
  for (int i = 0; i < 20; ++i) {
    open("192.0.2.1", 100 + i);
    close_asked();
  }
  EXPECT_EQ(budget_.open(), 10u);
}

}  // namespace
}  // namespace meshdns::dnsd
