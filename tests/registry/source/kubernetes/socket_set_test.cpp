// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/socket_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::registry::kubernetes {
namespace {

class SocketSetTest : public ::testing::Test {
 protected:
  SocketSetTest() {
    uv_loop_init(&loop_);
    auto opened = SocketSet::open(&loop_, [this](int socket, SocketSet::Readiness ready) {
      seen_.push_back(std::to_string(socket) + (ready.readable ? " reads" : "") +
                      (ready.writable ? " writes" : ""));
      if (const auto then = then_; then) then(socket);
    });
    EXPECT_TRUE(opened);
    set_ = *std::move(opened);
  }
  ~SocketSetTest() override {
    set_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle is left open";
  }
  static std::array<int, 2> pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return ends;
  }
  void turn() { uv_run(&loop_, UV_RUN_NOWAIT); }
  static void close_both(const std::array<int, 2>& ends) {
    ::close(ends[0]);
    ::close(ends[1]);
  }

  uv_loop_t loop_{};
  std::unique_ptr<SocketSet> set_;
  std::vector<std::string> seen_;
  std::function<void(int)> then_;
};

TEST_F(SocketSetTest, TellsOfWhatIsWatchedFor) {
  const auto ends = pair();
  const std::string name = std::to_string(ends[0]);
  ASSERT_TRUE(set_->watch(ends[0], {.readable = true}));
  turn();
  EXPECT_TRUE(seen_.empty());
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  then_ = [&](int socket) { set_->forget(socket); };
  turn();
  EXPECT_EQ(seen_, std::vector<std::string>{name + " reads"});
  ASSERT_TRUE(set_->watch(ends[0], {.readable = false, .writable = true}));
  turn();
  EXPECT_EQ(seen_.back(), name + " writes");
  close_both(ends);
}

TEST_F(SocketSetTest, WatchesANumberThatIsUsedAgainInTheSameTurn) {
  const auto first = pair();
  ASSERT_TRUE(set_->watch(first[0], {.readable = true}));
  EXPECT_EQ(write(first[1], "x", 1), 1);
  std::array<int, 2> second{};
  then_ = [&](int) {
    then_ = nullptr;
    set_->forget(first[0]);
    close_both(first);
    second = pair();
    EXPECT_EQ(second[0], first[0]);
    EXPECT_TRUE(set_->watch(second[0], {.readable = true}));
  };
  turn();
  EXPECT_EQ(seen_.size(), 1U) << "what came for the first is not told of the second";
  EXPECT_EQ(write(second[1], "x", 1), 1);
  then_ = [&](int socket) { set_->forget(socket); };
  turn();
  EXPECT_EQ(seen_.size(), 2U);
  close_both(second);
}

TEST_F(SocketSetTest, ReadsOnAfterTheOtherEndHasGone) {
  const auto ends = pair();
  ASSERT_TRUE(set_->watch(ends[0], {.readable = true}));
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  ::close(ends[1]);
  then_ = [&](int socket) { set_->forget(socket); };
  turn();
  EXPECT_EQ(seen_, std::vector<std::string>{std::to_string(ends[0]) + " reads writes"});
  char octet = 0;
  EXPECT_EQ(read(ends[0], &octet, 1), 1);
  ::close(ends[0]);
}

TEST_F(SocketSetTest, MayBeDestroyedByItsListener) {
  const auto one = pair();
  const auto two = pair();
  for (const auto& ends : {one, two}) {
    ASSERT_TRUE(set_->watch(ends[0], {.readable = true}));
    EXPECT_EQ(write(ends[1], "x", 1), 1);
  }
  then_ = [&](int) { set_.reset(); };
  turn();
  EXPECT_EQ(seen_.size(), 1U);
  close_both(one);
  close_both(two);
}

TEST_F(SocketSetTest, SaysThatASocketCannotBeWatched) {
  EXPECT_FALSE(set_->watch(-1, {.readable = true}));
  // epoll refuses a directory, as every regular file.
  const FileDescriptor directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto watched = set_->watch(directory.get(), {.readable = true});
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().message, "cannot watch the connection: Operation not permitted");
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
