// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using Time = RepeatedFold::Time;

TEST(RepeatedFoldTest, WritesOnceAWindowAndCountsTheRest) {
  RepeatedFold fold(10s);
  const Time start{};
  EXPECT_EQ(fold.admit("upstream timed out", start), 0U);
  for (int i = 1; i <= 5; ++i)
    EXPECT_EQ(fold.admit("upstream timed out", start + i * 1s), std::nullopt);
  EXPECT_EQ(fold.admit("upstream timed out", start + 10s), 5U);
  EXPECT_EQ(fold.admit("upstream timed out", start + 20s), 0U);
}

TEST(RepeatedFoldTest, KeepsMessagesApart) {
  RepeatedFold fold(10s);
  EXPECT_EQ(fold.admit("a", Time{}), 0U);
  EXPECT_EQ(fold.admit("b", Time{}), 0U);
  EXPECT_EQ(fold.admit("a", Time{}), std::nullopt);
}

TEST(RepeatedFoldTest, TellsCountsOfWhatDoesNotComeAgain) {
  RepeatedFold fold(10s);
  fold.admit("often", Time{});
  fold.admit("often", Time{} + 1s);
  fold.admit("often", Time{} + 2s);
  fold.admit("once", Time{});
  EXPECT_TRUE(fold.take_expired(Time{} + 9s).empty());
  const auto folded = fold.take_expired(Time{} + 10s);
  ASSERT_EQ(folded.size(), 1U);
  EXPECT_EQ(folded[0].key, "often");
  EXPECT_EQ(folded[0].count, 2U);
  EXPECT_TRUE(fold.take_expired(Time{} + 20s).empty());
  EXPECT_EQ(fold.admit("often", Time{} + 20s), 0U);
}

TEST(RepeatedFoldTest, SharesOneLineAmongKeysBeyondTheBound) {
  RepeatedFold fold(10s, 2);
  EXPECT_EQ(fold.admit("a", Time{}), 0U);
  EXPECT_EQ(fold.admit("b", Time{}), 0U);
  EXPECT_EQ(fold.admit("c", Time{}), 0U);
  EXPECT_EQ(fold.admit("d", Time{}), std::nullopt);
  EXPECT_EQ(fold.admit("a", Time{} + 1s), std::nullopt);
  std::size_t counted = 0;
  for (const auto& folded : fold.take_expired(Time{} + 20s)) counted += folded.count;
  EXPECT_EQ(counted, 2U);
}

}  // namespace
}  // namespace meshdns::dnsd
