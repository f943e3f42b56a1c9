// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/reach_probes.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "tests/dnsd/taken_port.hpp"

namespace meshdns::dnsd {
namespace {

class ReachProbesTest : public testing::Test {
 protected:
  std::vector<std::uint8_t> receive() const {
    std::vector<std::uint8_t> datagram(512);
    const ssize_t size = ::recv(port_.udp(), datagram.data(), datagram.size(), 0);
    datagram.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return datagram;
  }

  const test::TakenPort port_;
  ReachProbes probes_;
};

TEST_F(ReachProbesTest, KnowWhichOfThemHaveArrived) {
  probes_.send(port_.address(), 0);
  probes_.note(receive());
  probes_.send(port_.address(), 63);
  probes_.note(receive());
  EXPECT_EQ(probes_.take_arrived(), 1U | std::uint64_t{1} << 63);
  EXPECT_EQ(probes_.take_arrived(), 0U);
}

TEST_F(ReachProbesTest, AreNoQueries) {
  probes_.send(port_.address(), 0);
  EXPECT_EQ(receive()[2] & 0x80, 0x80);
}

TEST_F(ReachProbesTest, IgnoreEverythingElse) {
  ReachProbes others;
  others.send(port_.address(), 0);
  probes_.note(receive());
  probes_.send(port_.address(), 0);
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
