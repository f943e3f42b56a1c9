// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/file_poll.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace meshdns::dnsd::test {
namespace {

using namespace std::chrono_literals;

class FilePollTest : public testing::Test {
 protected:
  FilePollTest() : path_(testing::TempDir() + "file_poll_test-" + std::to_string(getpid())) {
    uv_loop_init(&loop_);
    write("a");
  }
  ~FilePollTest() override {
    poll_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove(path_);
  }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  uv_loop_t loop_{};
  FilePoll poll_;
  std::string path_;
};

// Several rounds each look at the file while the next start() comes.
TEST_F(FilePollTest, StartsAgainWhileTheFileIsLookedAt) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(poll_.start(&loop_, path_, 1ms, FileVersion::of(path_), [] {}));
    for (int round = 0; round < i % 4; ++round) uv_run(&loop_, UV_RUN_NOWAIT);
  }
}

TEST_F(FilePollTest, TellsOfAChangeOfTheLastStartOnly) {
  int before = 0;
  int after = 0;
  ASSERT_TRUE(poll_.start(&loop_, path_, 1ms, FileVersion::of(path_), [&] { ++before; }));
  uv_run(&loop_, UV_RUN_ONCE);
  ASSERT_TRUE(poll_.start(&loop_, path_, 1ms, FileVersion::of(path_), [&] { ++after; }));
  for (int size = 2; after == 0; ++size) {
    write(std::string(static_cast<std::size_t>(size), 'b'));
    uv_run(&loop_, UV_RUN_ONCE);
  }
  EXPECT_EQ(before, 0);
}

// libuv looks at the file for the first time when it is new already.
TEST_F(FilePollTest, TellsOfAChangeBetweenTheReadAndTheFirstLook) {
  const FileVersion read = FileVersion::of(path_);
  write("another text");
  bool told = false;
  ASSERT_TRUE(poll_.start(&loop_, path_, 1ms, read, [&] {
    told = true;
    poll_.close();
  }));
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(told);
}

TEST_F(FilePollTest, KnowsVersionsApart) {
  const FileVersion first = FileVersion::of(path_);
  EXPECT_EQ(first, FileVersion::of(path_));
  EXPECT_NE(first, FileVersion());
  std::filesystem::remove(path_);
  const FileVersion missing = FileVersion::of(path_);
  EXPECT_NE(missing, first);
  EXPECT_NE(missing, FileVersion());
  EXPECT_EQ(missing, FileVersion::of(path_ + "-another"));
}

}  // namespace
}  // namespace meshdns::dnsd::test
