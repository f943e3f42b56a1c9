// SPDX-License-Identifier: Apache-2.0
#include "registry/base/mailbox.hpp"

#include <barrier>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "registry/base/handle.hpp"
#include "tests/registry/base/loop_fixture.hpp"

namespace meshdns::loop {
namespace {

class MailboxTest : public LoopFixture {
 protected:
  void open(std::size_t tasks_per_turn = Mailbox::kAllTasks) {
    ASSERT_EQ(mailbox_->open(&loop_, tasks_per_turn), 0);
  }
  ~MailboxTest() override { mailbox_.reset(); }

  std::optional<Mailbox> mailbox_{std::in_place};
  std::string ran_;
};

TEST_F(MailboxTest, RunsTheTasksOfOtherThreadsInTheirOrder) {
  open();
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) mailbox_->post([&, i] { calls_ += i == calls_ ? 1 : 0; });
    mailbox_->post([&] { mailbox_->close(); });
  });
  run();
  other.join();
  EXPECT_EQ(calls_, 1000);
}

TEST_F(MailboxTest, TakesTheTasksOfSeveralThreadsAtOnce) {
  open();
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  std::barrier begin(kThreads);
  std::vector<std::jthread> others;
  for (int i = 0; i < kThreads; ++i)
    others.emplace_back([&] {
      begin.arrive_and_wait();
      for (int task = 0; task < kTasks; ++task)
        mailbox_->post([&] {
          if (++calls_ == kThreads * kTasks) mailbox_->close();
        });
    });
  run();
  EXPECT_EQ(calls_, kThreads * kTasks);
}

TEST_F(MailboxTest, RunsATaskThatATaskPostsInALaterTurn) {
  open();
  mailbox_->post([&] {
    ran_ += 'a';
    mailbox_->post([&] { ran_ += 'b'; });
  });
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(ran_, "a");
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(ran_, "ab");
}

TEST_F(MailboxTest, RunsNoMoreTasksInATurnThanItsLimit) {
  open(2);
  for (const char c : {'a', 'b', 'c', 'd', 'e'}) mailbox_->post([&, c] { ran_ += c; });
  std::vector<std::string> turns;
  for (int i = 0; i < 3; ++i) {
    uv_run(&loop_, UV_RUN_NOWAIT);
    turns.push_back(ran_);
  }
  EXPECT_EQ(turns, (std::vector<std::string>{"ab", "abcd", "abcde"}));
}

TEST_F(MailboxTest, DestroysTheTasksThatAreLeftWhenATaskClosesIt) {
  open();
  const auto held = std::make_shared<int>(0);
  mailbox_->post([&] { mailbox_->close(); });
  mailbox_->post([&, held] { ++calls_; });
  run();
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(MailboxTest, RefusesTasksBeforeItIsOpenAndAfterItIsClosed) {
  const auto held = std::make_shared<int>(0);
  EXPECT_FALSE(mailbox_->post([held] {}));
  open();
  EXPECT_TRUE(mailbox_->post([held] {}));
  EXPECT_EQ(held.use_count(), 2);
  mailbox_->close();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(mailbox_->post([held] {}));
  EXPECT_EQ(held.use_count(), 1);
}

// A task that is destroyed may post, for instance when it holds an object that does at its end.
TEST_F(MailboxTest, MayBePostedToByATaskThatItDestroys) {
  open();
  bool was_posted = true;
  const auto at_end = [&](const int* never) {
    delete never;
    was_posted = mailbox_->post([] {});
  };
  mailbox_->post([held = std::shared_ptr<const int>(new int(0), at_end)] {});
  mailbox_->close();
  EXPECT_FALSE(was_posted);
}

TEST_F(MailboxTest, DoesNotKeepTheLoopRunningAfterUnref) {
  open();
  mailbox_->unref();
  run();
  EXPECT_TRUE(mailbox_->post([&] { ++calls_; }));
  Timer running(&loop_, [] {});
  running.start(std::chrono::hours(1));
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(calls_, 1);
}

}  // namespace
}  // namespace meshdns::loop
