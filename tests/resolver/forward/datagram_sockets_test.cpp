// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/datagram_sockets.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "tests/resolver/forward/shortages.hpp"

namespace meshdns::dnsd::test {
namespace {

class Nobody final : public SocketListener {
  void on_socket(std::uint32_t) override {}
};

// The loop does not run, so that time stands still.
class DatagramSocketsTest : public ::testing::Test {
 protected:
  DatagramSocketsTest() {
    uv_loop_init(&loop_);
    reactor_.emplace(&loop_);
    sockets_.emplace(*reactor_, random_, *parse_socket_address("127.0.0.1:53"), kMaxIdle);
  }
  ~DatagramSocketsTest() override {
    sockets_.reset();
    reactor_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  SocketWatch take() {
    auto socket = sockets_->take(nobody_);
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  std::vector<SocketWatch> take(std::size_t count) {
    std::vector<SocketWatch> taken;
    while (taken.size() < count) taken.push_back(take());
    return taken;
  }
  // Leaves so many to be opened now.
  void use_up_fresh_but(std::size_t left) {
    for (std::size_t i = left; i < DatagramSockets::kFreshAtOnce; ++i) take();
  }
  void give_back(std::vector<SocketWatch> sockets) {
    for (SocketWatch& socket : sockets) sockets_->give_back(std::move(socket));
  }
  static std::uint16_t port_of(const SocketWatch& socket) {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    EXPECT_EQ(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    return ntohs(own.sin_port);
  }
  static std::multiset<std::uint16_t> ports_of(const std::vector<SocketWatch>& sockets) {
    std::multiset<std::uint16_t> ports;
    for (const SocketWatch& socket : sockets) ports.insert(port_of(socket));
    return ports;
  }

  static constexpr std::size_t kMaxIdle = DatagramSockets::kMinChoice + 20;
  uv_loop_t loop_;
  RandomPool random_;
  Nobody nobody_;
  std::optional<Reactor> reactor_;
  std::optional<DatagramSockets> sockets_;
};

TEST_F(DatagramSocketsTest, UseNoPortAgainWhileThereIsNoLoad) {
  auto before = take(100);
  const auto ports = ports_of(before);
  for (const std::uint16_t port : ports) EXPECT_GE(port, 32768);
  give_back(std::move(before));
  std::size_t again = 0;
  for (const SocketWatch& socket : take(100)) again += ports.count(port_of(socket));
  EXPECT_LE(again, 10u) << "but by chance";
}

TEST_F(DatagramSocketsTest, UsePortsAgainUnderLoadEachByOneQueryAtATime) {
  use_up_fresh_but(kMaxIdle);
  auto before = take(kMaxIdle);
  const auto ports = ports_of(before);
  give_back(std::move(before));
  const auto after = take(kMaxIdle - DatagramSockets::kMinChoice);
  const auto used = ports_of(after);
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), used.size());
  for (const std::uint16_t port : used) EXPECT_TRUE(ports.contains(port));
}

// An outsider who learns the open ports of a worker must still guess among all of them.
TEST_F(DatagramSocketsTest, ChooseEvenlyAmongAllIdlePortsUnderLoad) {
  use_up_fresh_but(kMaxIdle);
  give_back(take(kMaxIdle));
  std::map<std::uint16_t, int> uses;
  constexpr int kTakes = 20'000;
  for (int i = 0; i < kTakes; ++i) {
    std::vector<SocketWatch> one = take(1);
    ++uses[port_of(one.front())];
    give_back(std::move(one));
  }
  EXPECT_GE(uses.size(), DatagramSockets::kMinChoice);
  const auto most = std::ranges::max(uses | std::views::values);
  EXPECT_LT(most, 2 * kTakes / static_cast<int>(DatagramSockets::kMinChoice));
}

TEST_F(DatagramSocketsTest, OpenMoreRatherThanChooseAmongFew) {
  use_up_fresh_but(0);
  auto before = take(DatagramSockets::kMinChoice - 1);
  const auto ports = ports_of(before);
  give_back(std::move(before));
  EXPECT_FALSE(ports.contains(port_of(take())));
}

// RFC 9715: DF is set, and no ICMP message that somebody forged lowers the path's MTU.
TEST_F(DatagramSocketsTest, SendNoFragments) {
  int value = -1;
  socklen_t size = sizeof value;
  ASSERT_EQ(getsockopt(take().fd(), IPPROTO_IP, IP_MTU_DISCOVER, &value, &size), 0);
  EXPECT_EQ(value, IP_PMTUDISC_PROBE);
  sockets_.emplace(*reactor_, random_, *parse_socket_address("[::1]:53"), kMaxIdle);
  ASSERT_EQ(getsockopt(take().fd(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &value, &size), 0);
  EXPECT_EQ(value, IPV6_PMTUDISC_PROBE);
}

// The descriptors that are left are for files and the admin endpoint.
TEST_F(DatagramSocketsTest, LeaveDescriptorsToOtherEnds) {
  const FewDescriptors few(300);
  sockets_.emplace(*reactor_, random_, *parse_socket_address("127.0.0.1:53"), kMaxIdle);
  std::vector<SocketWatch> taken;
  auto next = sockets_->take(nobody_);
  for (; next; next = sockets_->take(nobody_)) taken.push_back(std::move(*next));
  EXPECT_TRUE(next.error().is_shortage) << next.error().message;
  std::vector<int> left;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) left.push_back(fd);
  for (const int fd : left) ::close(fd);
  EXPECT_GE(left.size(), 32u);
  taken.pop_back();
  EXPECT_TRUE(sockets_->take(nobody_)) << "one that is given up can be had again";
}

TEST_F(DatagramSocketsTest, AreUsedAgainWhereNoOtherCanBeHad) {
  use_up_fresh_but(kMaxIdle + 1);
  auto before = take(kMaxIdle);
  const auto ports = ports_of(before);
  give_back(std::move(before));
  const FewDescriptors none(0);
  EXPECT_TRUE(ports.contains(port_of(take())));
}

}  // namespace
}  // namespace meshdns::dnsd::test
