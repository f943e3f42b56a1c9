// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/endpoint_answer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace meshdns::dnsd {
namespace {

TEST(RotationTest, EachPlaceIsFirstOnceInAnyTurnOfTheSet) {
  for (const std::size_t size : {1U, 2U, 3U, 7U, 300U}) {
    auto table = std::make_unique<RotationTable>(42);
    std::vector<int> first(size);
    for (std::size_t i = 0; i < 5 * size; ++i) ++first[first_place(table->next(99), size)];
    for (const int times : first) EXPECT_EQ(times, 5) << size;
  }
}

TEST(RotationTest, SetsAreCountedApart) {
  auto table = std::make_unique<RotationTable>(42);
  // Alternately, as A and AAAA of one host are asked: one counter for both would favour a place.
  const std::uint32_t one = table->next(1);
  const std::uint32_t two = table->next(2);
  for (std::uint32_t i = 1; i < 100; ++i) {
    EXPECT_EQ(table->next(1), one + i);
    EXPECT_EQ(table->next(2), two + i);
  }
}

TEST(RotationTest, WeightsAreKeptToWithinAFewTurnsAtAnyTime) {
  const std::array<std::uint32_t, 4> weights = {3, 1, 0, 1};
  std::array<int, 4> first{};
  for (std::uint32_t turn = 0; turn < 10'000; ++turn) {
    ++first[first_weighted_place(turn, weights)];
    const double share = (turn + 1) / 5.0;
    EXPECT_NEAR(first[0], 3 * share, 3.0) << turn;
    EXPECT_NEAR(first[1], share, 3.0) << turn;
  }
  EXPECT_EQ(first[2], 0);
}

TEST(RotationTest, WeightsOfAnySizeArePlaces) {
  const std::array<std::uint32_t, 3> weights = {0xffffffff, 0xffffffff, 1};
  for (std::uint32_t turn = 0; turn < 1000; ++turn)
    EXPECT_LT(first_weighted_place(turn, weights), 3U);
}

}  // namespace
}  // namespace meshdns::dnsd
