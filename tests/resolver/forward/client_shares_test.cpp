// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/resolver/forward/forwarder_fixture.hpp"

namespace meshdns::dnsd::test {
namespace {

class ClientSharesTest : public ::testing::Test {
 protected:
  // Takes all that the client can get now.
  std::size_t take_all(const char* client) {
    std::vector<ClientShares::Place>& held = held_[client];
    while (auto place = shares_.take(*IpAddress::parse(client))) held.push_back(std::move(place));
    return held.size();
  }
  ClientShares shares_{80};
  std::map<std::string, std::vector<ClientShares::Place>> held_;
};

TEST_F(ClientSharesTest, LeaveHalfToOthers) {
  EXPECT_EQ(take_all("192.0.2.1"), 40u);
  EXPECT_EQ(shares_.free(), 40u);
}

TEST_F(ClientSharesTest, HavePlacesForANewClientHoweverManyAreGreedy) {
  take_all("192.0.2.1");
  EXPECT_EQ(take_all("192.0.2.2"), 20u);
  EXPECT_EQ(take_all("192.0.2.3"), 10u);
  EXPECT_EQ(take_all("192.0.2.4"), 5u);
  EXPECT_GE(take_all("192.0.2.5"), 1u);
}

TEST_F(ClientSharesTest, AreEqualAsQuestionsEnd) {
  take_all("192.0.2.1");
  take_all("192.0.2.2");
  for (int i = 0; i < 80; ++i)
    for (const char* const client : {"192.0.2.1", "192.0.2.2"}) {
      held_[client].pop_back();
      take_all(client);
    }
  const auto first = held_["192.0.2.1"].size();
  const auto second = held_["192.0.2.2"].size();
  EXPECT_LE(std::max(first, second) - std::min(first, second), 20u);
  held_.clear();
  EXPECT_EQ(shares_.free(), 80u);
}

// The upstream's connections are the narrowest place: they take 800 queries.
TEST_F(ForwarderTest, OneClientCannotTakeAllPlacesOnConnections) {
  FakeUpstream& upstream = add(Behaviour::TruncateThenHang);
  for (int i = 0; i < 20; ++i)
    upstream.behave("fast" + std::to_string(i) + ".example.org", Behaviour::TruncateThenTcp);
  config_.timeout = std::chrono::milliseconds(10'000);
  start();
  std::size_t rejected = 0;
  for (int i = 0; i < 1'000; ++i)
    resolve("n" + std::to_string(i) + ".example.org.", [&](const Outcome&) { ++rejected; });
  loop_.run_until([&] { return rejected >= 600; });
  EXPECT_GE(rejected, 600u);
  std::size_t answered = 0;
  for (int i = 0; i < 20; ++i)
    resolve(
        "fast" + std::to_string(i) + ".example.org.",
        [&](const Outcome& outcome) {
          EXPECT_EQ(outcome.message->kind(), MessageKind::Positive) << outcome.message->ede_text();
          ++answered;
        },
        "192.0.2.101");
  EXPECT_TRUE(loop_.run_until([&] { return answered == 20; }, 5'000));
  forwarder_.reset();  // calls back for those that wait
}

// The second tries of all find no place.
TEST_F(ForwarderTest, ATryWithoutAPlaceLeavesTheEarlierOneItsTime) {
  add(Behaviour::TruncateThenSlowTcp);
  config_.timeout = kTimeout;
  start();
  std::size_t answered = 0;
  for (int i = 0; i < 400; ++i)
    resolve("n" + std::to_string(i) + ".example.org.", [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Positive);
      ++answered;
    });
  EXPECT_TRUE(loop_.run_until([&] { return answered == 400; }));
  EXPECT_GT(forwarder_->counters().shortages, 0u);
}

TEST_F(ForwarderTest, CountsTheClientsOfAnIPv6NetworkAsOne) {
  add(Behaviour::Dead);
  config_.max_in_flight = 40;
  config_.timeout = kTimeout;
  start();
  std::size_t rejected = 0;
  for (int i = 0; i < 15; ++i) {
    const std::string client = "2001:db8:0:1::" + std::to_string(i);
    resolve(
        "n" + std::to_string(i) + ".example.org.", [&](const Outcome&) { ++rejected; },
        client.c_str());
  }
  EXPECT_TRUE(loop_.run_until([&] { return rejected == 5; }, kAtOnce)) << rejected;
  bool other_rejected = false;
  resolve("other.example.org.", [&](const Outcome&) { other_rejected = true; }, "2001:db8:0:2::1");
  loop_.run_for(50);
  EXPECT_FALSE(other_rejected);
  forwarder_.reset();  // calls back for those that wait
}

}  // namespace
}  // namespace meshdns::dnsd::test
