// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_stream.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace meshdns::dnsd {
namespace {

std::string read_some(HttpStream& stream, std::size_t size = 64) {
  std::string text(size, '\0');
  text.resize(stream.read(text.data(), size).size);
  return text;
}

TEST(HttpStreamTest, WakesAReaderThatFoundNothingOnce) {
  HttpStream stream;
  int woken = 0;
  stream.attach([&] { ++woken; });
  stream.write("a");
  EXPECT_EQ(woken, 0);  // nobody waits
  EXPECT_EQ(read_some(stream), "a");
  EXPECT_EQ(read_some(stream), "");
  stream.write("b");
  stream.write("c");
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(read_some(stream), "bc");
}

TEST(HttpStreamTest, GivesBytesInOrderInPiecesOfAnySize) {
  HttpStream stream;
  std::string written;
  std::string was_read;
  for (int i = 0; i < 1'000; ++i) {
    const std::string bytes = std::to_string(i) + ",";
    written += bytes;
    stream.write(bytes);
    was_read += read_some(stream, static_cast<std::size_t>(i % 7));
  }
  stream.finish();
  while (was_read.size() < written.size()) was_read += read_some(stream, 5);
  EXPECT_EQ(was_read, written);
  std::array<char, 1> byte{};
  EXPECT_TRUE(stream.read(byte.data(), byte.size()).has_ended);
}

TEST(HttpStreamTest, HasNoRoomUntilTheReaderHasRead) {
  HttpStream stream;
  stream.write(std::string(HttpStream::kRoom, 'x'));
  EXPECT_FALSE(stream.has_room());
  EXPECT_EQ(read_some(stream, HttpStream::kRoom).size(), HttpStream::kRoom);
  EXPECT_TRUE(stream.has_room());
}

TEST(HttpStreamTest, EndsAWatchWithItsFarewell) {
  HttpStream stream("bye");
  stream.write("line\n");
  EXPECT_TRUE(stream.give_up());
  EXPECT_FALSE(stream.give_up());
  EXPECT_TRUE(stream.is_closed());
  stream.write("late");
  EXPECT_EQ(read_some(stream), "line\nbye");
}

TEST(HttpStreamTest, HasNoFarewellForAList) {
  HttpStream stream;
  EXPECT_FALSE(stream.give_up());
  EXPECT_FALSE(stream.is_closed());
}

TEST(HttpStreamTest, TellsTheWriterThatTheReaderHasGone) {
  HttpStream stream;
  stream.detach();
  EXPECT_TRUE(stream.is_closed());
  stream.write("nobody reads this");
  EXPECT_EQ(read_some(stream), "");
}

}  // namespace
}  // namespace meshdns::dnsd
