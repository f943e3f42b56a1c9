// SPDX-License-Identifier: Apache-2.0
// A libuv loop for a test.
#pragma once

#include <gtest/gtest.h>
#include <uv.h>

namespace meshdns::loop {

class LoopFixture : public testing::Test {
 protected:
  LoopFixture() { uv_loop_init(&loop_); }
  // Closing fails while a handle is open: a test that leaks one fails here.
  ~LoopFixture() override {
    run();
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }

  uv_loop_t loop_{};
  int calls_ = 0;
};

}  // namespace meshdns::loop
