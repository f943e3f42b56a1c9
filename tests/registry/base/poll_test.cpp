// SPDX-License-Identifier: Apache-2.0
#include "registry/base/handle.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "tests/registry/base/loop_fixture.hpp"

namespace meshdns::loop {
namespace {

class PollTest : public LoopFixture {
 protected:
  PollTest() { EXPECT_EQ(pipe2(pipe_.data(), O_NONBLOCK | O_CLOEXEC), 0); }
  ~PollTest() override {
    for (const int fd : pipe_) ::close(fd);
  }
  int reader() const { return pipe_[0]; }
  void write_byte() const { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

  std::array<int, 2> pipe_{-1, -1};
};

TEST_F(PollTest, TellsThatTheDescriptorIsReadable) {
  Poll poll;
  ASSERT_EQ(poll.open(&loop_, reader(),
                      [&](int status, int events) {
                        EXPECT_EQ(status, 0);
                        EXPECT_EQ(events, UV_READABLE);
                        ++calls_;
                        poll.close();
                      }),
            0);
  write_byte();
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(calls_, 0) << "nothing is watched before watch()";
  poll.watch(UV_READABLE);
  run();
  EXPECT_EQ(calls_, 1);
}

TEST_F(PollTest, WatchesForOtherEventsOrNoneInstead) {
  Poll poll;
  ASSERT_EQ(poll.open(&loop_, reader(), [&](int, int) { ++calls_; }), 0);
  write_byte();
  poll.watch(UV_READABLE);
  EXPECT_TRUE(poll.is_active());
  poll.watch(0);
  EXPECT_FALSE(poll.is_active());
  run();
  EXPECT_EQ(calls_, 0);
  poll.watch(UV_READABLE);
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(calls_, 1);
}

TEST_F(PollTest, MayBeDestroyedInItsOwnCallback) {
  auto poll = std::make_unique<Poll>();
  ASSERT_EQ(poll->open(&loop_, reader(),
                       [&](int, int) {
                         poll.reset();
                         ++calls_;
                       }),
            0);
  poll->watch(UV_READABLE);
  write_byte();
  run();
  EXPECT_EQ(calls_, 1);
}

TEST_F(PollTest, RefusesADescriptorThatCannotBeWatched) {
  Poll poll;
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> held = kept;
  EXPECT_EQ(poll.open(&loop_, -1, [kept = std::move(kept)](int, int) {}), UV_EBADF);
  EXPECT_FALSE(poll.is_open());
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace meshdns::loop
