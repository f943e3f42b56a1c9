// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "dnsd/query/query_state.hpp"

namespace meshdns::dnsd {
namespace {

// Queries of clients, all for the root.
class HeldQueriesTest : public testing::Test {
 protected:
  // The number of the query that waits; 0: it may not.
  std::uint64_t hold(const std::string& client) {
    wire::QueryMessage query;
    query.question = question_;
    ReplyTo reply_to;
    reply_to.client.address = *IpAddress::parse(client);
    QueryState state;
    state.query = &query;
    state.reply_to = &reply_to;
    std::uint64_t number = 0;
    return held_.add(state, number) != nullptr ? number : 0;
  }

  std::array<std::uint8_t, 5> question_{0, 0, 1, 0, 1};
  HeldQueries held_{5, 2};
};

TEST_F(HeldQueriesTest, CountsTheAddressesOfOneIpv6NetworkAsOneClient) {
  const std::uint64_t first = hold("2001:db8:0:1::1");
  EXPECT_NE(first, 0u);
  EXPECT_NE(hold("2001:db8:0:1:ffff::2"), 0u);
  EXPECT_EQ(hold("2001:db8:0:1::3"), 0u);
  EXPECT_NE(hold("2001:db8:0:2::3"), 0u);  // another /64
  held_.remove(first);
  EXPECT_NE(hold("2001:db8:0:1::3"), 0u);
}

TEST_F(HeldQueriesTest, CountsEachIpv4AddressAsAClient) {
  EXPECT_NE(hold("192.0.2.1"), 0u);
  EXPECT_NE(hold("192.0.2.1"), 0u);
  EXPECT_EQ(hold("192.0.2.1"), 0u);
  EXPECT_NE(hold("192.0.2.2"), 0u);
}

TEST_F(HeldQueriesTest, HoldsNoMoreThanTheLimitOfAll) {
  for (int i = 1; i <= 5; ++i) EXPECT_NE(hold("192.0.2." + std::to_string(i)), 0u);
  EXPECT_EQ(hold("192.0.2.6"), 0u);
}

}  // namespace
}  // namespace meshdns::dnsd
