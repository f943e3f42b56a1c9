// SPDX-License-Identifier: Apache-2.0
#include "registry/base/handle.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "tests/registry/base/loop_fixture.hpp"

namespace meshdns::loop {
namespace {

using std::chrono::milliseconds;

class TimerTest : public LoopFixture {};

TEST_F(TimerTest, CallsOnceAfterTheDelay) {
  Timer timer(&loop_, [&] { ++calls_; });
  EXPECT_FALSE(timer.is_active());
  timer.start(milliseconds(2));
  EXPECT_TRUE(timer.is_active());
  run();
  EXPECT_EQ(calls_, 1);
  EXPECT_FALSE(timer.is_active());
}

TEST_F(TimerTest, RepeatsUntilItIsStoppedInItsOwnCallback) {
  Timer timer;
  timer.open(&loop_, [&] {
    if (++calls_ == 3) timer.stop();
  });
  timer.repeat(milliseconds(1));
  run();
  EXPECT_EQ(calls_, 3);
}

TEST_F(TimerTest, MayBeStartedAgainInItsOwnCallback) {
  Timer timer;
  timer.open(&loop_, [&] {
    if (++calls_ < 2) timer.start(milliseconds(1));
  });
  timer.start(milliseconds(1));
  run();
  EXPECT_EQ(calls_, 2);
}

TEST_F(TimerTest, MayBeOpenedAgainInItsOwnCallback) {
  Timer timer;
  timer.open(&loop_, [&] {
    ++calls_;
    timer.open(&loop_, [&] { calls_ += 10; });
    timer.start(milliseconds(1));
  });
  timer.start(milliseconds(1));
  run();
  EXPECT_EQ(calls_, 11);
}

TEST_F(TimerTest, ForgetsTheDelayBefore) {
  Timer timer(&loop_, [&] { ++calls_; });
  timer.start(std::chrono::hours(1));
  timer.start(milliseconds(1));
  run();
  EXPECT_EQ(calls_, 1);
}

TEST_F(TimerTest, CallsAtOnceAfterANegativeDelay) {
  Timer timer(&loop_, [&] { ++calls_; });
  timer.start(milliseconds(-5));
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(calls_, 1);
}

TEST_F(TimerTest, MayBeDestroyedInItsOwnCallback) {
  auto timer = std::make_unique<Timer>();
  timer->open(&loop_, [&, text = std::string(100, 'x')] {
    timer.reset();
    calls_ += static_cast<int>(text.size());  // what the callback holds lives until it returns
  });
  timer->start(milliseconds(1));
  run();
  EXPECT_EQ(calls_, 100);
}

// The owner of a timer may live as long as the handle.
TEST_F(TimerTest, TheCallbackMayOwnTheObjectThatHasTheTimer) {
  struct Owner {
    explicit Owner(int& ends_of_owners) : ends(ends_of_owners) {}
    ~Owner() { ++ends; }
    int& ends;
    Timer timer;
  };
  int destroyed = 0;
  auto owner = std::make_shared<Owner>(destroyed);
  Timer& timer = owner->timer;
  timer.open(&loop_, [&, owner = std::move(owner)] {
    owner->timer.close();
    EXPECT_EQ(destroyed, 0);
  });
  timer.start(milliseconds(1));
  run();
  EXPECT_EQ(destroyed, 1);
}

TEST_F(TimerTest, GoesOnWhereItIsMovedTo) {
  Timer timer;
  {
    Timer first(&loop_, [&] { ++calls_; });
    first.start(milliseconds(1));
    timer = std::move(first);
  }
  run();
  EXPECT_EQ(calls_, 1);
}

TEST_F(TimerTest, DoesNotKeepTheLoopRunningAfterUnref) {
  Timer timer(&loop_, [&] { ++calls_; });
  timer.unref();
  timer.start(std::chrono::hours(1));
  run();
  EXPECT_EQ(calls_, 0);
  EXPECT_TRUE(timer.is_active());
}

TEST_F(TimerTest, IsSilentOnceItIsStoppedOrClosedOrGone) {
  Timer stopped(&loop_, [&] { ++calls_; });
  stopped.start(milliseconds(1));
  stopped.stop();
  Timer closed(&loop_, [&] { ++calls_; });
  closed.start(milliseconds(1));
  closed.close();
  closed.close();
  closed.stop();
  EXPECT_FALSE(closed.is_open());
  {
    Timer gone(&loop_, [&] { ++calls_; });
    gone.start(milliseconds(1));
  }
  run();
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace meshdns::loop
