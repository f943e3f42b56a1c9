// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/worker_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class LivenessTest : public testing::Test {
 protected:
  // A second passes, in which the given workers' loops turned.
  void pass(bool first, bool second) {
    now_ += 1s;
    heartbeats_[0] += first ? 1 : 0;
    heartbeats_[1] += second ? 1 : 0;
    liveness_.observe(heartbeats_, now_);
  }

  Liveness liveness_;
  Liveness::Time now_{100s};
  std::array<std::uint64_t, 2> heartbeats_{};
};

TEST_F(LivenessTest, ComplainsOfNobodyWhoTurns) {
  for (int i = 0; i < 60; ++i) {
    pass(true, true);
    EXPECT_THAT(liveness_.stuck(), IsEmpty());
    EXPECT_EQ(liveness_.complaint(), "");
  }
}

TEST_F(LivenessTest, AvoidsTheSlowBeforeItComplains) {
  pass(true, true);
  pass(true, false);
  EXPECT_THAT(liveness_.to_avoid(), IsEmpty());
  pass(true, false);
  EXPECT_THAT(liveness_.to_avoid(), ElementsAre(1));
  EXPECT_EQ(liveness_.complaint(), "");
  pass(true, true);
  EXPECT_THAT(liveness_.to_avoid(), IsEmpty());
}

TEST_F(LivenessTest, NamesTheOneThatStandsStillAndForgivesItWhenItTurnsAgain) {
  pass(true, true);
  for (int i = 1; i < 5; ++i) {
    pass(true, false);
    EXPECT_THAT(liveness_.stuck(), IsEmpty()) << "after " << i << " s";
  }
  pass(true, false);
  EXPECT_THAT(liveness_.stuck(), ElementsAre(1U));
  EXPECT_EQ(liveness_.complaint(), "worker 1 hangs");
  pass(true, true);
  EXPECT_THAT(liveness_.stuck(), IsEmpty());
}

TEST_F(LivenessTest, NamesAllThatStandStill) {
  for (int i = 0; i < 6; ++i) pass(false, false);
  EXPECT_EQ(liveness_.complaint(), "worker 0 hangs, worker 1 hangs");
}

// The machine was suspended, or the control thread busy: no worker had a chance to turn either.
TEST_F(LivenessTest, BlamesNobodyForATimeThatItDidNotWatch) {
  pass(true, true);
  now_ += 1h;
  pass(false, false);
  EXPECT_THAT(liveness_.stuck(), IsEmpty());
  for (int i = 0; i < 5; ++i) pass(false, true);
  EXPECT_THAT(liveness_.stuck(), ElementsAre(0U));
}

}  // namespace
}  // namespace meshdns::dnsd
