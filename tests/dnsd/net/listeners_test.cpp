// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/listeners.hpp"

#include <fcntl.h>

#include <fstream>

#include "dnsd/net/open_socket.hpp"
#include "serving.hpp"
#include "tests/dnsd/taken_port.hpp"

namespace meshdns::dnsd {
namespace {

TEST(ListenersTest, ShareOnePortAmongProtocolsAndWorkers) {
  const ListenerSet set = Serving::open({"127.0.0.1:0", "[::1]:0"}, 3);
  ASSERT_EQ(set.listeners().size(), 2u);
  for (const Listener& listener : set.listeners()) {
    EXPECT_EQ(listener.requested.port, 0);
    EXPECT_NE(listener.address.port, 0);
    ASSERT_EQ(listener.udp.size(), 3u);
    ASSERT_EQ(listener.tcp.size(), 3u);
    for (const auto* sockets : {&listener.udp, &listener.tcp}) {
      for (const auto& socket : *sockets) {
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        ASSERT_EQ(::getsockname(socket->fd.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
        EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port), listener.address.port);
      }
    }
  }
}

std::string own_program() {
  std::ifstream comm("/proc/self/comm");
  std::string name;
  std::getline(comm, name);
  return name;
}

TEST(ListenersTest, BlameACapabilityForLowPortsOnly) {
  const auto message = [](const char* address, int error) {
    return listen_error(*parse_socket_address(address), Protocol::Udp, error).message;
  };
  for (const int error : {EACCES, EPERM}) {
    EXPECT_NE(message("127.0.0.1:53", error).find("CAP_NET_BIND_SERVICE"), std::string::npos);
    EXPECT_EQ(message("127.0.0.1:1024", error).find("CAP_NET_BIND_SERVICE"), std::string::npos);
    EXPECT_EQ(message("127.0.0.1:0", error).find("CAP_NET_BIND_SERVICE"), std::string::npos);
  }
}

TEST(ListenersTest, SayWhatCannotBeBoundAndWhy) {
  const test::TakenPort taken;
  const SocketAddress& address = taken.address();
  const auto set = ListenerSet::open(std::vector{address}, 1);
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().message,
            "cannot listen on " + address.to_string() + " (UDP): Address already in use; process " +
                std::to_string(::getpid()) + " (" + own_program() + ") is using this port");

  // New addresses are opened; those that were open stay.
  const ListenerSet old = Serving::open({"127.0.0.1:0", "127.0.0.2:0"}, 2);
  const auto change =
      old.change_to(std::vector{old.addresses()[0], address, address_of("127.0.0.3:0")});
  ASSERT_EQ(change.failures.size(), 1u);
  EXPECT_EQ(change.failures[0].message, set.error().message);
  EXPECT_EQ(change.opened.size(), 1u);
  EXPECT_TRUE(change.closed.empty());
  EXPECT_EQ(change.set.listeners().size(), 3u);
}

TEST(ListenersTest, RefuseAnAddressOfAnotherSet) {
  const ListenerSet first = Serving::open({"127.0.0.1:0", "[::1]:0"}, 2);
  for (const Listener& listener : first.listeners())
    for (const unsigned workers : {1U, 2U}) {
      const auto second = ListenerSet::open(std::vector{listener.address}, workers);
      ASSERT_FALSE(second.has_value()) << listener.address.to_string();
      EXPECT_NE(second.error().message.find("in use"), std::string::npos);
    }
}

// The sockets of an address that went away stay open until the last late reply is sent.
TEST(ListenersTest, TakeAnAddressBackWhileItsOldSocketsAreOpen) {
  const ListenerSet first = Serving::open({"127.0.0.1:0", "127.0.0.2:0"}, 2);
  const SocketAddress address = first.addresses()[0];
  const auto without = first.change_to(std::vector{first.addresses()[1]});
  ASSERT_EQ(without.closed.size(), 1u);
  const auto again = without.set.change_to(std::vector{address});
  ASSERT_TRUE(again.failures.empty()) << again.failures[0].message;
  EXPECT_EQ(again.opened, std::vector{address});
}

TEST(ListenersTest, OpenAWildcardBesideAnAddressThatItCovers) {
  for (const char* const order : {"specific first", "wildcard first"}) {
    SCOPED_TRACE(order);
    const bool is_first = order[0] == 's';
    const ListenerSet first = Serving::open({is_first ? "127.0.0.1:0" : "0.0.0.0:0"}, 2);
    SocketAddress other = first.addresses()[0];
    other.ip = *IpAddress::parse(is_first ? "0.0.0.0" : "127.0.0.1");
    const auto change = first.change_to(std::vector{first.addresses()[0], other});
    ASSERT_TRUE(change.failures.empty()) << change.failures[0].message;
    EXPECT_EQ(change.set.listeners().size(), 2u);
  }
}

TEST(ListenersTest, KeepTheSocketsOfUnchangedAddresses) {
  const ListenerSet old = Serving::open({"127.0.0.1:0", "127.0.0.2:0"}, 2);
  const auto change =
      old.change_to(std::vector{address_of("127.0.0.2:0"), address_of("127.0.0.3:0")});
  ASSERT_TRUE(change.failures.empty());
  ASSERT_EQ(change.closed.size(), 1u);
  EXPECT_EQ(change.closed[0], old.addresses()[0]);
  ASSERT_EQ(change.opened.size(), 1u);
  bool kept = false;
  for (const Listener& listener : change.set.listeners())
    kept |= listener.udp[1] == old.listeners()[1].udp[1];
  EXPECT_TRUE(kept);
}

TEST(ListenersTest, BindAddressesThatAreNotThereYet) {
  // RFC 5737's, on no interface.
  EXPECT_TRUE(ListenerSet::open(std::vector{address_of("192.0.2.1:0")}, 1).has_value());
}

// One UDP and one TCP socket, bound by somebody else, for three workers.
FileDescriptor socket_on(int type, std::uint16_t port) {
  FileDescriptor fd(::socket(AF_INET, type, 0));
  if (!fd) return {};
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_ANY);
  name.sin_port = htons(port);
  const bool is_bound =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  return is_bound ? std::move(fd) : FileDescriptor();
}

std::uint16_t port_of(const FileDescriptor& fd) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  EXPECT_TRUE(fd);
  if (!fd) return 0;
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  return ntohs(name.sin_port);
}

TEST(ListenersTest, ShareInheritedSockets) {
  // A port that is free for UDP may be in use for TCP.
  FileDescriptor udp_socket;
  FileDescriptor tcp_socket;
  for (int i = 0; i < 100 && tcp_socket.get() < 0; ++i) {
    udp_socket = socket_on(SOCK_DGRAM, 0);
    tcp_socket = socket_on(SOCK_STREAM, port_of(udp_socket));
  }
  ASSERT_EQ(::listen(tcp_socket.get(), 10), 0);
  const std::uint16_t port = port_of(udp_socket);
  std::vector<InheritedSocket> sockets;
  sockets.push_back({std::move(udp_socket)});
  sockets.push_back({std::move(tcp_socket)});
  // The giver keeps a duplicate, as systemd does.
  FileDescriptor kept(::dup(sockets[0].fd.get()));
  auto set = ListenerSet::adopt(std::move(sockets), 3);
  ASSERT_TRUE(set.has_value()) << set.error().message;
  ASSERT_EQ(set->listeners().size(), 1u);
  EXPECT_EQ(set->listeners()[0].udp.size(), 3u);
  {
    Serving server(*std::move(set));
    UdpClient udp;
    for (unsigned id = 0; id < 100; ++id) {
      IpAddress from;
      ASSERT_TRUE(udp.ask(server.address("127.0.0.4"), query_of(id), &from).has_value());
      EXPECT_EQ(from.to_string(), "127.0.0.4");
    }
    for (int i = 0; i < 20; ++i) {
      TcpClient tcp(server.address("127.0.0.1"));
      EXPECT_TRUE(tcp.ask(query_of(1)).has_value());
    }
    // A configuration without that address does not take it away.
    const auto change = server.listeners.change_to({});
    EXPECT_EQ(change.set.listeners().size(), 1u);
    server.stop(std::chrono::milliseconds(2000));
  }
  // The socket still receives: for whoever is started next.
  UdpClient udp;
  udp.send({*IpAddress::parse("127.0.0.1"), port, ""}, query_of(1));
  EXPECT_TRUE(wait_readable(kept.get()));
}

int option_of(const ListenSocket& socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.fd.get(), level, option, &value, &size), 0);
  return value;
}

// RFC 9715: replies of up to 1,232 bytes fit into any path's packets, and no ICMP message that
// somebody forged has the kernel cut them.
TEST(ListenersTest, TakeNobodysWordForThePathsMtu) {
  std::vector<ListenerSet> sets = {Serving::open({"127.0.0.1:0", "[::1]:0", "[::]:0"}, 2)};
  std::vector<InheritedSocket> inherited;
  FileDescriptor bound(::socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(bound.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  inherited.push_back({std::move(bound)});
  sets.push_back(ListenerSet::adopt(std::move(inherited), 2).value());
  for (const ListenerSet& set : sets)
    for (const Listener& listener : set.listeners())
      for (const auto& socket : listener.udp) {
        SCOPED_TRACE(listener.address.to_string());
        EXPECT_EQ(option_of(*socket, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_OMIT);
        if (!listener.address.ip.is_v6()) continue;
        EXPECT_EQ(option_of(*socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER), IPV6_PMTUDISC_OMIT);
      }
}

TEST(ListenersTest, RefuseInheritedFilesThatAreNoSockets) {
  std::vector<InheritedSocket> sockets;
  sockets.push_back({FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))});
  const auto set = ListenerSet::adopt(std::move(sockets), 1);
  ASSERT_FALSE(set.has_value());
  EXPECT_NE(set.error().message.find("not a bound internet socket"), std::string::npos);
}

}  // namespace
}  // namespace meshdns::dnsd
