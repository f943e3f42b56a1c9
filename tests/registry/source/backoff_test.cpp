// SPDX-License-Identifier: Apache-2.0
#include "registry/source/backoff.hpp"

#include <gtest/gtest.h>

#include <set>

namespace meshdns::registry {
namespace {

TEST(BackoffTest, DoublesUpToTheLimitAndBeginsAnew) {
  Backoff backoff(Milliseconds(100), [] { return 0.999999; });
  const auto next = [&] { return (backoff.next(Milliseconds(1'000)).count() + 9) / 10 * 10; };
  for (const int expected : {100, 200, 400, 800, 1'000, 1'000}) EXPECT_EQ(next(), expected);
  backoff.reset();
  EXPECT_EQ(next(), 100);
}

TEST(BackoffTest, NeverWaitsLessThanHalfOfTheStep) {
  Backoff backoff(Milliseconds(100), [] { return 0.0; });
  EXPECT_EQ(backoff.next(Milliseconds(1'000)), Milliseconds(50));
  EXPECT_EQ(backoff.next(Milliseconds(1'000)), Milliseconds(100));
}

TEST(BackoffTest, CopiesOfTheRandomSourceDrawFromOneSequence) {
  const auto one = make_random();
  const auto other = one;  // NOLINT(performance-unnecessary-copy-initialization): the subject
  std::set<double> drawn;
  for (int i = 0; i < 10; ++i) {
    drawn.insert(one());
    drawn.insert(other());
  }
  EXPECT_EQ(drawn.size(), 20U);
}

}  // namespace
}  // namespace meshdns::registry
