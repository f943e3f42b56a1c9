// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <set>
#include <thread>

#include "serving.hpp"

namespace meshdns::dnsd {
namespace {

TEST(UdpTest, AnswersFromTheListener) {
  Serving server({"127.0.0.1:0"});
  UdpClient client;
  IpAddress from;
  const auto reply = client.ask(server.address(), query_of(7), &from);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(id_of(*reply), 7u);
  EXPECT_EQ(from.to_string(), "127.0.0.1");
  const Peer seen = server.sinks[0]->clients().at(0);
  EXPECT_EQ(seen.address.to_string(), "127.0.0.1");
  EXPECT_EQ(seen.local.to_string(), "127.0.0.1");
  EXPECT_FALSE(seen.tcp);
}

TEST(UdpTest, AnswersEveryQueryOfABurst) {
  Serving server({"127.0.0.1:0"});
  UdpClient client;
  constexpr unsigned kQueries = 2000;
  for (unsigned id = 0; id < kQueries; ++id) client.send(server.address(), query_of(id));
  std::set<unsigned> ids;
  for (unsigned i = 0; i < kQueries; ++i) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply.has_value()) << i;
    ids.insert(id_of(*reply));
  }
  EXPECT_EQ(ids.size(), kQueries);
  EXPECT_EQ(server.sum(&WorkerCounters::udp_queries), kQueries);
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_replies, kQueries));
}

// The server changes between the system calls for one message and those for many.
TEST(UdpTest, AnswersSingleQueriesAndBurstsInTurn) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"}) {
    Serving server({address});
    const SocketAddress asked =
        std::string_view(address) == "0.0.0.0:0" ? server.address("127.0.0.1") : server.address();
    UdpClient client(asked.ip.is_v6());
    unsigned id = 0;
    for (const unsigned burst : {1, 100, 1, 3, 70, 1}) {
      for (int singles = 0; singles < 25; ++singles)
        ASSERT_EQ(id_of(client.ask(asked, query_of(++id)).value()), id) << address;
      std::set<unsigned> missing;
      for (unsigned i = 0; i < burst; ++i) {
        client.send(asked, query_of(++id));
        missing.insert(id);
      }
      for (unsigned i = 0; i < burst; ++i) missing.erase(id_of(client.receive().value()));
      EXPECT_TRUE(missing.empty()) << address << " " << burst;
    }
    EXPECT_EQ(server.sum(&WorkerCounters::udp_queries), id);
  }
}

// RFC 2181, section 4: the reply comes from the address that was asked.
TEST(UdpTest, AnswersFromTheAddressAskedOnWildcards) {
  for (const char* wildcard : {"0.0.0.0:0", "[::]:0"}) {
    Serving server({wildcard});
    UdpClient client;
    for (const char* ip : {"127.0.0.1", "127.0.0.2", "127.9.8.7"}) {
      for (const char* text : {"echo", "L"}) {
        IpAddress from;
        ASSERT_TRUE(client.ask(server.address(ip), query_of(1, text), &from).has_value());
        EXPECT_EQ(from.to_string(), ip) << wildcard << " " << text;
        const Peer seen = server.sinks[0]->clients().back();
        EXPECT_EQ(seen.local.to_string(), ip);
        EXPECT_TRUE(seen.address.is_v4());  // mapped or not
      }
    }
  }
}

TEST(UdpTest, ServesBothFamiliesOnOneWildcard) {
  Serving server({"[::]:0"});
  UdpClient client(true);
  for (const char* text : {"echo", "L"}) {
    IpAddress from;
    ASSERT_TRUE(client.ask(server.address("::1"), query_of(1, text), &from).has_value());
    EXPECT_EQ(from.to_string(), "::1");
  }
}

TEST(UdpTest, MixesListenersWithAndWithoutTheAddressAsked) {
  Serving server({"0.0.0.0:0", "127.0.0.1:0"});
  UdpClient client;
  for (int i = 0; i < 50; ++i) {
    IpAddress from;
    ASSERT_TRUE(client.ask(server.address("127.0.0.3"), query_of(1), &from).has_value());
    EXPECT_EQ(from.to_string(), "127.0.0.3");
    ASSERT_TRUE(client.ask(server.address(1), query_of(1), &from).has_value());
    EXPECT_EQ(from.to_string(), "127.0.0.1");
  }
}

TEST(UdpTest, SendsLateRepliesOfAllListeners) {
  Serving server({"127.0.0.1:0", "127.0.0.1:0"});
  UdpClient client;
  constexpr unsigned kQueries = 200;
  for (unsigned id = 0; id < kQueries; ++id) client.send(server.address(id % 2), query_of(id, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::udp_queries, kQueries));
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  std::set<unsigned> ids;
  for (unsigned i = 0; i < kQueries; ++i) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply.has_value());
    ids.insert(id_of(*reply));
  }
  EXPECT_EQ(ids.size(), kQueries);
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_late_replies, kQueries));
}

TEST(UdpTest, SpreadsOneClientOverAllWorkers) {
  Serving server({"127.0.0.1:0"}, 2);
  UdpClient client;
  std::map<int, int> answers;
  for (unsigned id = 0; id < 200; ++id) {
    const auto reply = client.ask(server.address(), query_of(id));
    ASSERT_TRUE(reply.has_value());
    ++answers[(*reply)[3]];
  }
  // One in 2^200 says otherwise.
  EXPECT_EQ(answers.size(), 2u);
}

// Two listeners that answer each other would never stop.
TEST(UdpTest, DropsOwnListenersAsSource) {
  Serving server({"127.0.0.1:0", "127.0.0.1:0"});
  const int fd = server.listeners.listeners()[0].udp[0]->fd.get();
  const std::string message = query_of(1);
  for (std::size_t to : {0u, 1u}) {
    sockaddr_storage name{};
    const unsigned size = *server.address(to).to_sockaddr(name);
    ASSERT_GT(
        ::sendto(fd, message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&name), size),
        0);
  }
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_dropped_source, 2));
  EXPECT_EQ(server.sum(&WorkerCounters::udp_replies), 0u);
  EXPECT_TRUE(server.sinks[0]->clients().empty());
}

TEST(UdpTest, DropsOwnWildcardListenerAsSource) {
  Serving server({"0.0.0.0:0"});
  const int fd = server.listeners.listeners()[0].udp[0]->fd.get();
  const std::string message = query_of(1);
  sockaddr_storage name{};
  const unsigned size = *server.address("127.0.0.1").to_sockaddr(name);
  ASSERT_GT(
      ::sendto(fd, message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&name), size), 0);
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_dropped_source, 1));
}

TEST(UdpTest, DropsWhatIsLongerThanItsBuffer) {
  Serving server({"127.0.0.1:0"});
  UdpClient client;
  for (std::size_t size :
       {kUdpBufferSize - 1, kUdpBufferSize, kUdpBufferSize + 1, 2 * kUdpBufferSize})
    client.send(server.address(),
                query_of(static_cast<unsigned>(size), std::string(size - 12, 'x')));
  EXPECT_EQ(id_of(client.receive().value()), kUdpBufferSize - 1);
  EXPECT_EQ(id_of(client.receive().value()), kUdpBufferSize);
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_dropped_long, 2));
}

TEST(UdpTest, DropsAnyLongDatagramAmongSingleQueries) {
  Serving server({"127.0.0.1:0"});
  UdpClient client;
  const std::string too_long(kUdpBufferSize - 11, 'x');
  for (unsigned id = 0; id < 20; ++id)
    ASSERT_TRUE(client.ask(server.address(), query_of(id)).has_value());
  for (unsigned id = 20; id < 40; ++id) {
    client.send(server.address(), query_of(id, too_long));
    ASSERT_EQ(id_of(client.ask(server.address(), query_of(id)).value()), id);
  }
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_dropped_long, 20));
}

TEST(UdpTest, TakesEmptyDatagrams) {
  Serving server({"127.0.0.1:0"});
  UdpClient client;
  client.send(server.address(), "");
  EXPECT_TRUE(client.ask(server.address(), query_of(1)).has_value());
}

// A client that is gone makes the kernel report errors on the socket; others must not notice.
TEST(UdpTest, SurvivesClientsThatAreGone) {
  Serving server({"127.0.0.1:0"});
  for (int i = 0; i < 50; ++i) {
    UdpClient gone;
    gone.send(server.address(), query_of(1, "H"));
  }
  ASSERT_TRUE(server.wait_for(&WorkerCounters::udp_queries, 50));
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  UdpClient client;
  for (unsigned id = 0; id < 50; ++id)
    EXPECT_TRUE(client.ask(server.address(), query_of(id)).has_value());
}

TEST(UdpTest, CountsWhatTheKernelDropped) {
  Serving server({"127.0.0.1:0"});
  std::mutex stall;
  stall.lock();
  server.workers[0]->post([&] { const std::scoped_lock wait(stall); });
  UdpClient client;
  const std::string big = query_of(1, "D" + std::string(3000, 'x'));
  for (int i = 0; i < 20'000; ++i) client.send(server.address(), big);
  stall.unlock();
  EXPECT_TRUE(server.wait_for(&WorkerCounters::udp_socket_overflow, 1));
}

}  // namespace
}  // namespace meshdns::dnsd
