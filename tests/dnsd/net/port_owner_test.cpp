// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/port_owner.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <tuple>

#include "dnsd/net/open_socket.hpp"
#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

// A server's socket, and a client's that is bound to the same address.
class OwnSocketTest : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  OwnSocketTest() {
    bind(server_);
    bind(client_);
    if (is_tcp()) {
      EXPECT_EQ(::listen(server_.get(), 1), 0);
    }
  }
  static int type() { return std::get<1>(GetParam()); }
  static bool is_tcp() { return type() == SOCK_STREAM; }
  void bind(FileDescriptor& socket) const {
    sockaddr_storage name{};
    const auto size = SocketAddress{ip_, 0, ""}.to_sockaddr(name);
    socket = FileDescriptor(::socket(ip_.is_v4() ? AF_INET : AF_INET6, type() | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), *size), 0);
  }
  bool connects_to(const SocketAddress& address) const {
    sockaddr_storage name{};
    const auto size = address.to_sockaddr(name);
    return ::connect(client_.get(), reinterpret_cast<const sockaddr*>(&name), *size) == 0;
  }
  void connect() const { ASSERT_TRUE(connects_to(*bound_address(server_.get()))); }
  Peer peer() const {
    return {ip_, bound_address(client_.get())->port, ip_, is_tcp(),
            bound_address(server_.get())->port};
  }

  const IpAddress ip_ = *IpAddress::parse(std::get<0>(GetParam()));
  FileDescriptor server_;
  FileDescriptor client_;
};

TEST_P(OwnSocketTest, FindsTheSocketThatIsConnected) {
  connect();
  EXPECT_TRUE(is_own_socket(peer()));
}

TEST_P(OwnSocketTest, DoesNotTakeASocketForAnother) {
  // Its port alone: a rule for NAT may have given a packet the same.
  EXPECT_FALSE(is_own_socket(peer())) << "bound only";
  connect();
  Peer other_server = peer();
  other_server.local_port ^= 1U;
  EXPECT_FALSE(is_own_socket(other_server));
  Peer no_server = peer();
  no_server.local_port = 0;
  EXPECT_FALSE(is_own_socket(no_server));
  Peer other_address = peer();
  other_address.local = *IpAddress::parse(ip_.is_v4() ? "127.0.0.3" : "::2");
  EXPECT_FALSE(is_own_socket(other_address));
}

// getaddrinfo() connects so, to learn which of its addresses the machine would use.  The kernel
// finds such a socket whatever port at the other end is asked for.
TEST_P(OwnSocketTest, DoesNotTakeASocketThatIsConnectedToNoPort) {
  EXPECT_EQ(connects_to({ip_, 0, ""}), !is_tcp());
  EXPECT_FALSE(is_own_socket(peer()));
}

// The kernel keeps what is left of a connection for a while, and a rule for NAT may give a packet
// its port.
TEST_P(OwnSocketTest, DoesNotTakeAConnectionThatIsClosed) {
  connect();
  const Peer closed = peer();
  client_ = FileDescriptor();
  EXPECT_FALSE(is_own_socket(closed));
}

TEST_P(OwnSocketTest, DoesNotTakeAServerForAClient) {
  Peer server = peer();
  server.port = server.local_port;
  EXPECT_FALSE(is_own_socket(server));
}

INSTANTIATE_TEST_SUITE_P(EachFamily, OwnSocketTest,
                         testing::Combine(testing::Values("127.0.0.2", "::1"),
                                          testing::Values(SOCK_DGRAM, SOCK_STREAM)));

}  // namespace
}  // namespace meshdns::dnsd
