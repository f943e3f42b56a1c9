// SPDX-License-Identifier: Apache-2.0
#include "loop/timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace meshdns::loop {
namespace {

using std::chrono::milliseconds;

class TimerTest : public testing::Test {
 protected:
  TimerTest() { uv_loop_init(&loop_); }
  // Closing fails while a handle is open: a test that leaks one fails here.
  ~TimerTest() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }

  uv_loop_t loop_{};
  int calls_ = 0;
};

TEST_F(TimerTest, CallsOnceAfterTheDelay) {
  Timer timer;
  timer.start(&loop_, milliseconds(2), [&] { ++calls_; });
  EXPECT_TRUE(timer.is_active());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(calls_, 1);
  EXPECT_FALSE(timer.is_active());
}

TEST_F(TimerTest, RepeatsUntilItIsStoppedInItsOwnCallback) {
  Timer timer;
  timer.repeat(&loop_, milliseconds(1), [&] {
    if (++calls_ == 3) timer.stop();
  });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(calls_, 3);
}

TEST_F(TimerTest, MayBeStartedAgainInItsOwnCallback) {
  Timer timer;
  timer.start(&loop_, milliseconds(1), [&] {
    ++calls_;
    timer.start(&loop_, milliseconds(1), [&] { calls_ += 10; });
  });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(calls_, 11);
}

TEST_F(TimerTest, MayBeDestroyedInItsOwnCallback) {
  auto timer = std::make_unique<Timer>();
  timer->start(&loop_, milliseconds(1), [&, text = std::string(100, 'x')] {
    timer.reset();
    calls_ += static_cast<int>(text.size());  // what the callback holds lives until it returns
  });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(calls_, 100);
}

TEST_F(TimerTest, IsSilentOnceItIsStoppedOrGone) {
  Timer stopped;
  stopped.start(&loop_, milliseconds(1), [&] { ++calls_; });
  stopped.stop();
  stopped.stop();
  {
    Timer gone;
    gone.start(&loop_, milliseconds(1), [&] { ++calls_; });
  }
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace meshdns::loop
