// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/address_reach.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A socket that stands for a worker's.
class AddressReachTest : public testing::Test {
 protected:
  AddressReachTest() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    auto* const any = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(fd_, any, size), 0);
    EXPECT_EQ(::getsockname(fd_, any, &size), 0);
    addresses_ = {{IpAddress::v4({127, 0, 0, 1}), ntohs(own.sin_port), ""}};
  }
  ~AddressReachTest() override { ::close(fd_); }

  // Ticks once a second; the worker reads probes, or they are lost.
  void pass(unsigned seconds, bool is_read, bool is_sure = true) {
    for (unsigned i = 0; i < seconds; ++i) {
      watch_.tick(now_ += std::chrono::seconds(1), addresses_, is_sure);
      std::array<std::uint8_t, 512> datagram;
      for (;;) {
        const ssize_t size = ::recv(fd_, datagram.data(), datagram.size(), MSG_DONTWAIT);
        if (size <= 0) break;
        ++received_;
        if (is_read)
          watch_.probes()->note(std::span(datagram).first(static_cast<std::size_t>(size)));
      }
    }
  }

  const int fd_ = ::socket(AF_INET, SOCK_DGRAM, 0);
  std::vector<SocketAddress> addresses_;
  Log log_{{.level = LogLevel::Off}};
  AddressReach watch_{log_};
  AddressReach::Time now_{std::chrono::hours(1)};
  unsigned received_ = 0;
};

TEST_F(AddressReachTest, ProbesOnceAMinuteWhileAllArrive) {
  pass(180, true);
  EXPECT_THAT(watch_.troubles(), IsEmpty());
  EXPECT_EQ(received_, 3U);
}

TEST_F(AddressReachTest, FindsAnAddressThatQueriesDoNotReachAndItsReturn) {
  pass(AddressReach::kLost, false);
  EXPECT_THAT(watch_.troubles(), IsEmpty());
  pass(1, false);
  EXPECT_THAT(watch_.troubles(), ElementsAre(HasSubstr("hostPort")));
  pass(2, true);
  EXPECT_THAT(watch_.troubles(), IsEmpty());
}

TEST_F(AddressReachTest, DoesNotBlameOthersForWhatMayBeItsOwnFault) {
  pass(30, false, false);
  EXPECT_THAT(watch_.troubles(), IsEmpty());
  EXPECT_EQ(received_, 0U);
}

TEST_F(AddressReachTest, ForgetsAddressesThatItServesNoMore) {
  pass(AddressReach::kLost + 1, false);
  ASSERT_FALSE(watch_.troubles().empty());
  addresses_.clear();
  pass(1, false);
  EXPECT_THAT(watch_.troubles(), IsEmpty());
}

}  // namespace
}  // namespace meshdns::dnsd
