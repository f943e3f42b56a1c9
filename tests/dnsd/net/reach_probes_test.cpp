// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/reach_probes.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace meshdns::dnsd {
namespace {

// A UDP socket on a loopback address and a free port.
class ReachProbesTest : public testing::Test {
 protected:
  ReachProbesTest() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    auto* const any = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(fd_, any, size), 0);
    EXPECT_EQ(::getsockname(fd_, any, &size), 0);
    address_ = {IpAddress::v4({127, 0, 0, 1}), ntohs(own.sin_port), ""};
  }
  ~ReachProbesTest() override { ::close(fd_); }
  std::vector<std::uint8_t> receive() const {
    std::vector<std::uint8_t> datagram(512);
    const ssize_t size = ::recv(fd_, datagram.data(), datagram.size(), 0);
    datagram.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return datagram;
  }

  const int fd_ = ::socket(AF_INET, SOCK_DGRAM, 0);
  SocketAddress address_;
  ReachProbes probes_;
};

TEST_F(ReachProbesTest, KnowWhichOfThemHaveArrived) {
  probes_.send(address_, 0);
  probes_.note(receive());
  probes_.send(address_, 63);
  probes_.note(receive());
  EXPECT_EQ(probes_.take_arrived(), 1U | std::uint64_t{1} << 63);
  EXPECT_EQ(probes_.take_arrived(), 0U);
}

TEST_F(ReachProbesTest, AreNoQueries) {
  probes_.send(address_, 0);
  EXPECT_EQ(receive()[2] & 0x80, 0x80);
}

TEST_F(ReachProbesTest, IgnoreEverythingElse) {
  ReachProbes others;
  others.send(address_, 0);
  probes_.note(receive());
  probes_.send(address_, 0);
  auto datagram = receive();
  datagram.back() = 64;
  probes_.note(datagram);
  datagram.pop_back();
  probes_.note(datagram);
  probes_.note({});
  EXPECT_EQ(probes_.take_arrived(), 0U);
}

}  // namespace
}  // namespace meshdns::dnsd
