// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/address_reach.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "tests/dnsd/taken_port.hpp"

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AddressReachTest : public testing::Test {
 protected:
  // Ticks once a second; the worker reads probes, or they are lost.
  void pass(unsigned seconds, bool is_read, bool is_sure = true) {
    for (unsigned i = 0; i < seconds; ++i) {
      watch_.tick(now_ += std::chrono::seconds(1), addresses_, is_sure);
      std::array<std::uint8_t, 512> datagram;
      for (;;) {
        const ssize_t size = ::recv(port_.udp(), datagram.data(), datagram.size(), MSG_DONTWAIT);
        if (size <= 0) break;
        ++received_;
        if (is_read)
          watch_.probes()->note(std::span(datagram).first(static_cast<std::size_t>(size)));
      }
    }
  }

  const test::TakenPort port_;  // stands for a worker's socket
  std::vector<SocketAddress> addresses_{port_.address()};
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

TEST_F(AddressReachTest, BlamesNoRuleForAnAddressThatTheMachineDoesNotHave) {
  addresses_ = {*parse_socket_address("192.0.2.77:53")};
  pass(AddressReach::kLost + 1, false);
  EXPECT_THAT(watch_.troubles(), ElementsAre(HasSubstr("no interface of this machine")));
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
