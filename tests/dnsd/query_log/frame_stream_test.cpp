// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/frame_stream.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using Octets = std::vector<std::uint8_t>;

constexpr std::string_view kDnstap = "protobuf:dnstap.Dnstap";
constexpr std::uint8_t kAccept = 1;

Octets accept_frame(std::string_view content_type) {
  const auto size = static_cast<std::uint8_t>(content_type.size());
  Octets frame{0, 0, 0, 0,                                     // a control frame
               0, 0, 0, static_cast<std::uint8_t>(12 + size),  // its length
               0, 0, 0, kAccept,
               0, 0, 0, 1,
               0, 0, 0, size};  // type; field: content type, length
  frame.insert(frame.end(), content_type.begin(), content_type.end());
  return frame;
}

// Listens at a Unix socket.  Accepts one stream and then reads nothing more.
class HangingReader {
 public:
  explicit HangingReader(std::string_view content_type) {
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
    listener_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
    thread_ = std::thread([this, answer = accept_frame(content_type)] {
      connection_ = FileDescriptor(::accept(listener_.get(), nullptr, nullptr));
      std::array<std::uint8_t, 42> ready;  // the same fields, hence the same length
      EXPECT_EQ(read_fully(connection_.get(), ready), ready.size());
      EXPECT_TRUE(write_all(connection_.get(), answer));
    });
  }
  ~HangingReader() {
    if (thread_.joinable()) thread_.join();
    std::filesystem::remove_all(directory_);
  }
  DnstapTarget target() const { return {DnstapTarget::Kind::Socket, path()}; }
  void join() { thread_.join(); }

 private:
  std::string path() const { return directory_ + "/socket"; }

  std::string directory_ = std::filesystem::temp_directory_path() / "meshdns-dnstap-XXXXXX";
  FileDescriptor listener_;
  FileDescriptor connection_;
  std::thread thread_;
};

TEST(FrameStreamTest, CountsEachFrameOnceAndEndsInTimeWhenTheReaderHangs) {
  HangingReader reader(kDnstap);
  Log log({.level = LogLevel::Off});
  FrameStream stream(reader.target(), log);
  reader.join();
  constexpr std::uint64_t kFrames = 100;
  for (std::uint64_t i = 0; i < kFrames; ++i) stream.push(Octets(std::size_t{64} << 10));
  const auto start = std::chrono::steady_clock::now();
  stream.close();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_GT(stream.written(), 0U) << "the buffer of the socket takes a few";
  EXPECT_EQ(stream.written() + stream.dropped(), kFrames);
}

TEST(FrameStreamTest, SendsNothingToAReaderOfAnotherContentType) {
  HangingReader reader("protobuf:other.Type");
  Log log({.level = LogLevel::Off});
  FrameStream stream(reader.target(), log);
  stream.push(Octets(100));
  reader.join();
  stream.close();
  EXPECT_EQ(stream.written(), 0U);
  EXPECT_EQ(stream.dropped(), 1U);
}

}  // namespace
}  // namespace meshdns::dnsd
