// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "serving.hpp"
#include "tests/dnsd/few_descriptors.hpp"

namespace meshdns::dnsd {
namespace {

using std::chrono::milliseconds;

TEST(TcpTest, AnswersOneQuery) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  const auto reply = client.ask(query_of(7));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(id_of(*reply), 7u);
  const Peer seen = server.sinks[0]->clients().at(0);
  EXPECT_TRUE(seen.tcp);
  EXPECT_EQ(seen.local.to_string(), "127.0.0.1");
}

TEST(TcpTest, KnowsTheAddressAskedOnWildcards) {
  Serving server({"[::]:0"});
  TcpClient client(server.address("127.0.0.2"));
  ASSERT_TRUE(client.ask(query_of(1)).has_value());
  const Peer seen = server.sinks[0]->clients().at(0);
  EXPECT_EQ(seen.local.to_string(), "127.0.0.2");
  EXPECT_EQ(seen.address.to_string(), "127.0.0.1");
}

TEST(TcpTest, AnswersAThousandPipelinedQueriesInOrder) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  std::string all;
  for (unsigned id = 0; id < 1000; ++id) all += TcpClient::framed(query_of(id));
  ASSERT_TRUE(client.write(all));
  for (unsigned id = 0; id < 1000; ++id) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply.has_value()) << id;
    EXPECT_EQ(id_of(*reply), id);
  }
}

TEST(TcpTest, AnswersQueriesThatComeInPieces) {
  Serving server({"127.0.0.1:0"});
  const std::string two =
      TcpClient::framed(query_of(1)) + TcpClient::framed(query_of(2, "longer text"));
  for (std::size_t cut = 1; cut < two.size(); ++cut) {
    TcpClient client(server.address());
    ASSERT_TRUE(client.write(two.substr(0, cut)));
    // The server has read the first part when it has answered somebody who came after it.
    TcpClient later(server.address());
    ASSERT_TRUE(later.ask(query_of(3)).has_value());
    ASSERT_TRUE(client.write(two.substr(cut)));
    EXPECT_EQ(id_of(client.receive().value()), 1u);
    EXPECT_EQ(id_of(client.receive().value()), 2u);
  }
  TcpClient dripping(server.address());
  for (const char octet : two) ASSERT_TRUE(dripping.write(std::string(1, octet)));
  EXPECT_EQ(id_of(dripping.receive().value()), 1u);
  EXPECT_EQ(id_of(dripping.receive().value()), 2u);
}

TEST(TcpTest, TakesAndGivesTheLongestMessages) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  for (std::size_t size : {2047u, 2048u, 2049u, 16383u, 16384u, 16385u, 65534u, 65535u}) {
    const std::string query = query_of(static_cast<unsigned>(size), std::string(size - 12, 'x'));
    const auto reply = client.ask(query);
    ASSERT_TRUE(reply.has_value()) << size;
    EXPECT_EQ(reply->size(), size);
    EXPECT_EQ(reply->substr(12), query.substr(12));
  }
  const auto reply = client.ask(query_of(1, "B65535"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->size(), 65535u);
}

TEST(TcpTest, AnswersOutOfOrder) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  for (unsigned id = 0; id < 10; ++id) client.send(query_of(id, "H"));
  client.send(query_of(100));
  EXPECT_EQ(id_of(client.receive().value()), 100u);  // not blocked by those before
  server.on_worker(0, [&] { server.sinks[0]->release(true); });
  for (unsigned id = 10; id-- > 0;) EXPECT_EQ(id_of(client.receive().value()), id);
}

TEST(TcpTest, AnswersLateInTheSameTurn) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  std::string all;
  for (unsigned id = 0; id < 300; ++id)
    all += TcpClient::framed(query_of(id, id % 3 == 0 ? "L" : "echo"));
  ASSERT_TRUE(client.write(all));
  std::set<unsigned> ids;
  for (unsigned i = 0; i < 300; ++i) ids.insert(id_of(client.receive().value()));
  EXPECT_EQ(ids.size(), 300u);
}

TEST(TcpTest, StopsReadingAtAHundredInFlight) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  std::string all;
  for (unsigned id = 0; id < 350; ++id) all += TcpClient::framed(query_of(id, "H"));
  ASSERT_TRUE(client.write(all));
  std::set<unsigned> ids;
  for (unsigned round = 0; round < 4; ++round) {
    const std::uint64_t expected = std::min(350u, (round + 1) * 100);
    ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, expected));
    // Queries that the worker has not taken when it runs this were left on purpose.
    server.on_worker(0, [] {});
    EXPECT_EQ(server.sum(&WorkerCounters::tcp_queries), expected);
    server.on_worker(0, [&] { server.sinks[0]->release(); });
    for (unsigned i = 0; i < (round < 3 ? 100u : 50u); ++i)
      ids.insert(id_of(client.receive().value()));
  }
  EXPECT_EQ(ids.size(), 350u);
}

TEST(TcpTest, FinishesWhatWasAskedAfterHalfClose) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address());
  std::string all;
  for (unsigned id = 0; id < 300; ++id)
    all += TcpClient::framed(query_of(id, id % 2 == 0 ? "H" : "echo"));
  ASSERT_TRUE(
      client.write(all + std::string("\0\x32 ab", 5)));  // and a piece that is never finished
  client.end_of_queries();
  std::set<unsigned> ids;
  for (unsigned i = 0; i < 300; ++i) {
    auto reply = client.receive(50);
    for (int tries = 0; !reply && tries < 200; ++tries) {
      server.on_worker(0, [&] { server.sinks[0]->release(); });
      reply = client.receive(50);
    }
    ASSERT_TRUE(reply.has_value()) << i;
    ids.insert(id_of(*reply));
  }
  EXPECT_EQ(ids.size(), 300u);
  EXPECT_TRUE(client.is_ended());
  EXPECT_TRUE(server.wait_for(&WorkerCounters::tcp_accepted, 1));
}

TEST(TcpTest, EndsConnectionsWhoseFramingIsLost) {
  Serving server({"127.0.0.1:0"});
  for (std::size_t size : {0u, 1u, 11u}) {
    TcpClient client(server.address());
    client.send(query_of(5));
    client.send(std::string(size, 'x'));
    const auto reply = client.receive();
    if (reply) {
      EXPECT_EQ(id_of(*reply), 5u);
    }
    EXPECT_TRUE(client.is_ended()) << size;
  }
}

TEST(TcpTest, LetsClientsGoThatReset) {
  Serving server({"127.0.0.1:0"});
  for (int i = 0; i < 50; ++i) {
    TcpClient client(server.address());
    client.send(query_of(1, i % 2 == 0 ? "H" : "echo"));
  }
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 50));
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  TcpClient client(server.address());
  EXPECT_TRUE(client.ask(query_of(1)).has_value());
  client.close();
  for (int waited = 0; waited < kPatienceMs && server.budget->open() > 0; ++waited)
    ::poll(nullptr, 0, 1);
  EXPECT_EQ(server.budget->open(), 0u);
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_open), 0u);
}

TEST(TcpTest, EndsIdleConnections) {
  TcpLimits limits;
  limits.idle_timeout = milliseconds(300);
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient busy(server.address());
  TcpClient idle(server.address());
  ASSERT_TRUE(idle.ask(query_of(1)).has_value());
  for (int i = 0; !idle.is_ended(20); ++i) {
    ASSERT_LT(i, 500);
    ASSERT_TRUE(busy.ask(query_of(2)).has_value());
  }
  EXPECT_TRUE(busy.ask(query_of(3)).has_value());
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_closed_idle), 1u);
}

TEST(TcpTest, WaitsForWhatIsInFlightBeyondTheIdleTimeout) {
  TcpLimits limits;
  limits.idle_timeout = milliseconds(1);
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient client(server.address());
  client.send(query_of(1, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::heartbeat, 1));
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  EXPECT_TRUE(client.receive().has_value());
  EXPECT_TRUE(client.is_ended());
}

TEST(TcpTest, ShortensTheIdleTimeoutWhenNearlyFull) {
  TcpLimits limits;
  limits.max_connections = 10;
  limits.idle_timeout = std::chrono::hours(1);
  limits.busy_idle_timeout = milliseconds(100);
  Serving server({"127.0.0.1:0"}, 1, limits);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 9; ++i) clients.emplace_back(server.address());
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_closed_idle, 1));
  // Down to 80 % and no further.
  for (int i = 0; i < 3; ++i)
    server.wait_for(&WorkerCounters::heartbeat, server.sum(&WorkerCounters::heartbeat) + 1);
  EXPECT_EQ(server.budget->open(), 8u);
}

// A short query is kept in front of the next read, a long one in a buffer of its own.
TEST(TcpTest, GivesUpOnQueriesThatDoNotEnd) {
  TcpLimits limits;
  limits.message_timeout = milliseconds(400);
  Serving server({"127.0.0.1:0"}, 1, limits);
  for (const std::size_t size : {1'500u, 3'000u}) {
    TcpClient dripping(server.address());
    const std::string query = TcpClient::framed(query_of(1, std::string(size, 'x')));
    bool is_ended = false;
    for (std::size_t i = 0; i < query.size() && !is_ended; ++i)
      is_ended = !dripping.write(query.substr(i, 1)) || dripping.is_ended(2);
    EXPECT_TRUE(is_ended) << size;
  }
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_closed_slow_query), 2u);
}

TEST(TcpTest, WaitsForTheRestOfAQueryBeyondTheIdleTimeout) {
  Serving server({"127.0.0.1:0"});
  TcpClient idle(server.address());
  const std::string query = TcpClient::framed(query_of(1));
  for (const std::size_t cut : {std::size_t{1}, query.size() - 1}) {
    TcpClient slow(server.address());
    ASSERT_TRUE(slow.write(query.substr(0, cut)));
    // The server has read the first part when it has answered somebody who came after it.
    TcpClient later(server.address());
    ASSERT_TRUE(later.ask(query_of(3)).has_value());
    TcpLimits limits;
    limits.idle_timeout = milliseconds(1);
    server.budget->set_limits(limits);
    EXPECT_TRUE(later.is_ended());
    server.wait_for(&WorkerCounters::heartbeat, server.sum(&WorkerCounters::heartbeat) + 1);
    ASSERT_TRUE(slow.write(query.substr(cut)));
    const auto reply = slow.receive();
    ASSERT_TRUE(reply.has_value()) << cut;
    EXPECT_EQ(id_of(*reply), 1u);
    server.budget->set_limits(TcpLimits());
    server.wait_for(&WorkerCounters::heartbeat, server.sum(&WorkerCounters::heartbeat) + 1);
  }
}

// The place of a connection is used again.
TEST(TcpTest, GivesNoReplyToAnotherConnectionThanAsked) {
  Serving server({"127.0.0.1:0"});
  for (unsigned id = 1; id <= 3; ++id) {
    TcpClient first(server.address());
    ASSERT_TRUE(first.send(query_of(id, "H")));
    ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 2UL * id - 1));
    first.reset();
    for (int waited = 0; waited < kPatienceMs && server.budget->open() > 0; ++waited)
      ::poll(nullptr, 0, 1);
    ASSERT_EQ(server.budget->open(), 0u);
    TcpClient second(server.address());
    ASSERT_TRUE(second.send(query_of(100 + id, "H")));
    ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 2UL * id));
    server.on_worker(0, [&] { server.sinks[0]->release(); });
    const auto reply = second.receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(id_of(*reply), 100 + id);
    EXPECT_FALSE(second.receive(10).has_value());
    second.reset();
    for (int waited = 0; waited < kPatienceMs && server.budget->open() > 0; ++waited)
      ::poll(nullptr, 0, 1);
  }
}

TEST(TcpTest, StopsReadingFromWhoDoesNotReadAndGivesUpOnThem) {
  TcpLimits limits;
  limits.write_timeout = milliseconds(500);
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient client(server.address(), 4096);
  // Replies a hundred times their queries, never read.
  std::string all;
  for (unsigned id = 0; id < 1000; ++id) all += TcpClient::framed(query_of(id, "B5000"));
  for (int i = 0; i < 100'000 && server.sum(&WorkerCounters::tcp_closed_slow_reader) == 0; ++i) {
    if (client.write_some(all) == 0) ::poll(nullptr, 0, 1);
  }
  EXPECT_TRUE(server.wait_for(&WorkerCounters::tcp_closed_slow_reader, 1));
  // The replies held for the client: 64 KiB, one more scratch buffer, and the kernel's buffer.
  EXPECT_LT(server.sum(&WorkerCounters::tcp_replies), 4000u);
  TcpClient other(server.address());
  EXPECT_TRUE(other.ask(query_of(1)).has_value());
}

// Late replies are bounded, too.
TEST(TcpTest, HoldsAQuarterMegabyteOfLateRepliesAndNoMore) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address(), 4096);
  const std::string large = "H" + std::string(60'000, 'x');
  for (unsigned id = 0; id < 60; ++id) ASSERT_TRUE(client.send(query_of(id, large)));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 60));
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_closed_slow_reader), 1u);
  EXPECT_LE(server.sum(&WorkerCounters::tcp_replies), 6u);
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_held), 0u);
}

// Late replies go on coming meanwhile.
TEST(TcpTest, GivesUpOnWhoDoesNotReadThoughMoreRepliesCome) {
  TcpLimits limits;
  limits.write_timeout = milliseconds(400);
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient client(server.address(), 4096);
  constexpr std::size_t kLate = 90;
  for (unsigned id = 0; id < kLate; ++id) ASSERT_TRUE(client.send(query_of(id, "H")));
  for (std::uint64_t sent = kLate; server.sum(&WorkerCounters::tcp_held) == 0;) {
    ASSERT_TRUE(client.send(query_of(100, "B9000")));
    ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, ++sent));
    server.on_worker(0, [] {});  // it has written what it could
  }
  std::size_t left = kLate;
  for (; left > 0 && server.sum(&WorkerCounters::tcp_closed_slow_reader) == 0; --left) {
    server.on_worker(0, [&] { server.sinks[0]->release_one(); });
    ::poll(nullptr, 0, 30);
  }
  EXPECT_GT(left, 0u);
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_closed_slow_reader), 1u);
}

// Stalled connections, each with more to hold than it may.
struct Stall {
  const char* name;
  std::string sent;
  std::size_t most_of_one;  // octets
};
void PrintTo(const Stall& stall, std::ostream* out) { *out << stall.name; }

class TcpStallTest : public testing::TestWithParam<Stall> {};

std::string many_queries() {
  std::string all;
  for (unsigned id = 0; id < 400; ++id) all += TcpClient::framed(query_of(id, "B9000"));
  return all;
}

// Until nothing more moves: the client's window and both buffers of the kernel are full.
void write_all_that_fits(TcpClient& client, const Serving& server, const std::string& octets) {
  std::uint64_t before = ~0ULL;
  ASSERT_TRUE(client.write_some(octets) > 0);
  for (int still = 0; still < 20; ++still) {
    const std::uint64_t now = server.sum(&WorkerCounters::tcp_replies);
    if (std::exchange(before, now) != now) still = 0;
    ::poll(nullptr, 0, 2);
  }
}

TEST_P(TcpStallTest, OneHoldsWhatOneMay) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address(), 4096);
  write_all_that_fits(client, server, GetParam().sent);
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_held, 1));
  EXPECT_LE(server.sum(&WorkerCounters::tcp_held), GetParam().most_of_one);
}

TEST_P(TcpStallTest, AllTogetherHoldWhatAllMay) {
  TcpLimits limits;
  limits.max_held = std::size_t{512} << 10;
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient good(server.address());
  std::vector<TcpClient> stalled;
  while (server.sum(&WorkerCounters::tcp_closed_backlog) < 3) {
    ASSERT_LT(stalled.size(), 60u);
    stalled.emplace_back(server.address(), 4096);
    write_all_that_fits(stalled.back(), server, GetParam().sent);
    EXPECT_LE(server.sum(&WorkerCounters::tcp_held), limits.max_held);
    EXPECT_TRUE(good.ask(query_of(1)).has_value());
  }
  // The connections that have stalled longest are closed first.
  EXPECT_EQ(server.budget->open(), stalled.size() - 3 + 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(stalled[i].is_ended_at_last()) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Sides, TcpStallTest,
    testing::Values(Stall{"unread replies", many_queries(), std::size_t{64 + 64 + 20} << 10},
                    Stall{"an unfinished query",
                          std::string("\xff\xff", 2) + std::string(60'000, 'x'),
                          std::size_t{128} << 10}));

TEST(TcpTest, DeliversMuchToASlowReader) {
  Serving server({"127.0.0.1:0"});
  TcpClient client(server.address(), 4096);
  std::string all;
  for (unsigned id = 0; id < 200; ++id)
    all += TcpClient::framed(query_of(id, id % 10 == 0 ? "L" : "B60000"));
  ASSERT_TRUE(client.write(all));
  std::set<unsigned> ids;
  for (unsigned i = 0; i < 200; ++i) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply.has_value()) << i;
    ids.insert(id_of(*reply));
  }
  EXPECT_EQ(ids.size(), 200u);
}

TEST(TcpTest, ServesThreeHundredConnectionsAtATime) {
  TcpLimits limits;
  limits.max_connections_per_client = 1000;
  Serving server({"127.0.0.1:0"}, 2, limits);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 300; ++i) clients.emplace_back(server.address());
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < clients.size(); ++i) ASSERT_TRUE(clients[i].send(query_of(i)));
    for (unsigned i = 0; i < clients.size(); ++i) EXPECT_EQ(id_of(clients[i].receive().value()), i);
  }
  EXPECT_EQ(server.budget->open(), 300u);
}

TEST(TcpTest, HoldsOneClientToItsShare) {
  TcpLimits limits;
  limits.max_connections_per_client = 3;
  Serving server({"0.0.0.0:0"}, 2, limits);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.address("127.0.0.1"));
    ASSERT_TRUE(clients.back().ask(query_of(1)).has_value());
  }
  // An idle one makes room, whichever worker has it.
  TcpClient fourth(server.address("127.0.0.1"));
  EXPECT_TRUE(fourth.ask(query_of(1)).has_value());
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_evicted, 1));
  clients.push_back(std::move(fourth));
  EXPECT_EQ(std::erase_if(clients, [](TcpClient& c) { return !c.ask(query_of(1)).has_value(); }),
            1u);
  // Those that wait for answers stay.
  const std::uint64_t asked = server.sum(&WorkerCounters::tcp_queries);
  for (TcpClient& client : clients) client.send(query_of(2, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, asked + 3));
  TcpClient fifth(server.address("127.0.0.1"));
  EXPECT_TRUE(fifth.is_ended());
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_rejected_client), 1u);
  for (unsigned i : {0U, 1U}) server.on_worker(i, [&] { server.sinks[i]->release(); });
  for (TcpClient& client : clients) EXPECT_TRUE(client.receive().has_value());
}

TEST(TcpTest, ServesANewConnectionBesideAThousandIdleOnesOfItsAddress) {
  Serving server({"127.0.0.1:0"}, 2);
  std::vector<TcpClient> idle;
  for (int i = 0; i < 1000; ++i) idle.emplace_back(server.address());
  for (unsigned i = 0; i < 20; ++i) {
    TcpClient client(server.address());
    EXPECT_TRUE(client.ask(query_of(i)).has_value());
  }
  EXPECT_LE(server.budget->open(), TcpLimits().max_connections_per_client);
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_rejected_client), 0u);
}

TEST(TcpTest, EvictsTheLongestIdleWhenAllAreInUse) {
  TcpLimits limits;
  limits.max_connections = 4;
  Serving server({"127.0.0.1:0"}, 1, limits);
  std::vector<TcpClient> clients;
  for (unsigned i = 0; i < 4; ++i) {
    clients.emplace_back(server.address());
    ASSERT_TRUE(clients.back().ask(query_of(i)).has_value());
  }
  ASSERT_TRUE(clients[0].ask(query_of(1)).has_value());  // now the second has been idle longest
  ASSERT_TRUE(clients[1].send(query_of(1, "H")));        // but it waits for an answer
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 6));
  TcpClient fifth(server.address());
  EXPECT_TRUE(fifth.ask(query_of(5)).has_value());
  EXPECT_TRUE(clients[2].is_ended());
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_evicted), 1u);
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  EXPECT_TRUE(clients[1].receive().has_value());
}

TEST(TcpTest, RejectsWhenAllAreBusy) {
  TcpLimits limits;
  limits.max_connections = 2;
  Serving server({"127.0.0.1:0"}, 1, limits);
  TcpClient first(server.address());
  TcpClient second(server.address());
  first.send(query_of(1, "H"));
  second.send(query_of(2, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 2));
  TcpClient third(server.address());
  EXPECT_TRUE(third.is_ended());
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_rejected_total), 1u);
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  EXPECT_TRUE(first.receive().has_value());
}

// When descriptors run out, accepting pauses; UDP and open connections go on.
struct FewFiles {
  std::uint32_t reserved;
  Counter WorkerCounters::* counted;
};

class TcpFewFilesTest : public testing::TestWithParam<FewFiles> {};

TEST_P(TcpFewFilesTest, PausesAcceptingAndServesOn) {
  const ListenerSet listeners = Serving::open({"127.0.0.1:0"}, 1);
  const SocketAddress address = listeners.addresses()[0];
  // Opened beforehand: here the clients share the table of files with the server.
  std::vector<TcpClient> clients(60);
  for (TcpClient& client : clients) client.open(address);
  UdpClient udp;
  const test::FewDescriptors few(40);
  TcpLimits limits;
  limits.reserved_files = GetParam().reserved;
  Serving server(listeners, limits);
  for (TcpClient& client : clients) client.connect(address);
  EXPECT_TRUE(server.wait_for(GetParam().counted, 3));
  EXPECT_LT(server.sum(GetParam().counted), 100u);  // and it does not spin
  for (unsigned id = 0; id < 100; ++id) EXPECT_TRUE(udp.ask(address, query_of(id)).has_value());
  // The idle ones made room: who waits is served in the end.
  EXPECT_TRUE(clients.back().ask(query_of(1)).has_value());
}

INSTANTIATE_TEST_SUITE_P(Reserves, TcpFewFilesTest,
                         testing::Values(FewFiles{0, &WorkerCounters::tcp_accept_errors},
                                         FewFiles{8, &WorkerCounters::tcp_evicted}));

TEST(TcpTest, KeepsTheReserveOfFilesWhenAllAreBusy) {
  const ListenerSet listeners = Serving::open({"127.0.0.1:0"}, 1);
  const SocketAddress address = listeners.addresses()[0];
  const test::FewDescriptors few(60);
  TcpLimits limits;
  limits.reserved_files = 20;
  Serving server(listeners, limits);
  std::vector<TcpClient> busy;
  while (server.sum(&WorkerCounters::tcp_rejected_files) == 0 && busy.size() < 60) {
    busy.emplace_back(address);
    busy.back().send(query_of(1, "H"));
    for (int waited = 0; waited < kPatienceMs; ++waited) {
      if (server.sum(&WorkerCounters::tcp_queries) >= busy.size()) break;
      if (server.sum(&WorkerCounters::tcp_rejected_files) > 0) break;
      ::poll(nullptr, 0, 1);
    }
  }
  EXPECT_GT(server.sum(&WorkerCounters::tcp_rejected_files), 0u);
  EXPECT_EQ(server.sum(&WorkerCounters::tcp_evicted), 0u);
  UdpClient udp;  // a file of the reserve
  for (unsigned id = 0; id < 100; ++id) EXPECT_TRUE(udp.ask(address, query_of(id)).has_value());
}

// Each newcomer closes an idle one; whether it then takes its number decides what is left.
TEST(TcpTest, KeepsTheReserveOfFilesWhenIdleOnesMakeRoom) {
  const ListenerSet listeners = Serving::open({"127.0.0.1:0"}, 1);
  const SocketAddress address = listeners.addresses()[0];
  std::vector<TcpClient> clients(100);
  for (TcpClient& client : clients) client.open(address);
  const test::FewDescriptors few(60);
  TcpLimits limits;
  limits.reserved_files = 20;
  Serving server(listeners, limits);
  for (TcpClient& client : clients) {
    client.connect(address);
    EXPECT_TRUE(client.ask(query_of(1)).has_value());
  }
  EXPECT_GT(server.sum(&WorkerCounters::tcp_evicted), 0u);
  std::vector<FileDescriptor> left;
  do left.emplace_back(::dup(0));
  while (left.back());
  EXPECT_GE(left.size() - 1, limits.reserved_files);
}

TEST(TcpTest, TakesNewLimitsWhileRunning) {
  Serving server({"127.0.0.1:0"});
  TcpClient idle(server.address());
  ASSERT_TRUE(idle.ask(query_of(1)).has_value());
  TcpLimits limits;
  limits.idle_timeout = milliseconds(1);
  server.budget->set_limits(limits);
  EXPECT_TRUE(idle.is_ended());
}

}  // namespace
}  // namespace meshdns::dnsd
