// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/worker.hpp"

#include <atomic>
#include <thread>

#include "serving.hpp"

namespace meshdns::dnsd {
namespace {

using std::chrono::milliseconds;

TEST(WorkerTest, EndsWithoutHavingStarted) {
  auto worker = Worker::create({}, std::make_shared<TcpBudget>(TcpLimits{}));
  ASSERT_TRUE(worker.has_value());
}

TEST(WorkerTest, RunsTasksInOrderOnItsThread) {
  Serving server({"127.0.0.1:0"});
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 1000; ++i) server.workers[0]->post([&order, i] { order.push_back(i); });
  server.on_worker(0, [&] { thread = std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(WorkerTest, DestroysTasksPostedTooLate) {
  Serving server({"127.0.0.1:0"});
  server.stop(milliseconds(0));
  const auto held = std::make_shared<int>(1);
  server.workers[0]->post([held] { FAIL(); });
  EXPECT_EQ(held.use_count(), 1);
}

TEST(WorkerTest, HasAHeartbeat) {
  Serving server({"127.0.0.1:0"});
  EXPECT_TRUE(server.wait_for(&WorkerCounters::heartbeat, 2));
}

TEST(WorkerTest, StaysOnItsCore) {
  auto worker = Worker::create({.index = 0, .cpu = 0, .reach_probes = nullptr},
                               std::make_shared<TcpBudget>(TcpLimits{}));
  ASSERT_TRUE(worker.has_value());
  const ListenerSet listeners = Serving::open({"127.0.0.1:0"}, 1);
  EchoSink sink((*worker)->replies(), 0);
  ASSERT_TRUE((*worker)->start(listeners, sink).has_value());
  std::atomic<int> cores = 0;
  (*worker)->post([&] {
    cpu_set_t cpus;
    pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    cores = CPU_COUNT(&cpus) * 10 + (CPU_ISSET(0, &cpus) ? 1 : 0);
  });
  (*worker)->drain(milliseconds(0));
  (*worker)->join();
  EXPECT_EQ(cores, 11);
}

TEST(WorkerTest, AnswersWhatIsInFlightBeforeItEnds) {
  Serving server({"127.0.0.1:0"});
  UdpClient udp;
  TcpClient tcp(server.address());
  TcpClient idle(server.address());
  udp.send(server.address(), query_of(1, "H"));
  tcp.send(query_of(2, "H"));
  ASSERT_TRUE(idle.ask(query_of(3)).has_value());
  ASSERT_TRUE(server.wait_for(&WorkerCounters::udp_queries, 1));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 2));
  server.workers[0]->drain(milliseconds(kPatienceMs));
  EXPECT_TRUE(idle.is_ended());
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  EXPECT_EQ(id_of(udp.receive().value()), 1u);
  EXPECT_EQ(id_of(tcp.receive().value()), 2u);
  EXPECT_TRUE(tcp.is_ended());
  server.workers[0]->join();
}

// A client that has just connected is about to ask; a restart must not close its connection.
TEST(WorkerTest, WaitsForTheFirstQueryOfAConnectionBeforeItEnds) {
  Serving server({"127.0.0.1:0"});
  TcpClient fresh(server.address());
  TcpClient silent(server.address());
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_accepted, 2));
  server.workers[0]->drain(milliseconds(kPatienceMs));
  server.on_worker(0, [] {});  // it drains now
  EXPECT_TRUE(fresh.ask(query_of(1)).has_value());
  EXPECT_TRUE(fresh.is_ended());
  EXPECT_TRUE(silent.is_ended());
  server.workers[0]->join();
}

// Another process serves the address, so that there is no hurry.  A machine that stands still for
// kIdleGrace proves nothing.
TEST(WorkerTest, LetsAConnectionAskOnWhileOthersServeTheAddress) {
  int answers = 0;
  for (int tries = 0; tries < 5 && answers < 3; ++tries) {
    Serving server({"127.0.0.1:0"});
    TcpClient client(server.address());
    ASSERT_TRUE(client.ask(query_of(1)).has_value());
    server.workers[0]->drain(milliseconds(kPatienceMs), Waiting::LeftToOthers);
    server.on_worker(0, [] {});  // it drains now
    for (answers = 0; answers < 3 && client.ask(query_of(2)).has_value();) ++answers;
    EXPECT_TRUE(client.is_ended()) << "it asks no more";
    server.workers[0]->join();
  }
  EXPECT_EQ(answers, 3);
}

TEST(WorkerTest, DrainsForALimitedTimeOnly) {
  Serving server({"127.0.0.1:0"});
  TcpClient tcp(server.address());
  tcp.send(query_of(2, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::tcp_queries, 1));
  const auto start = std::chrono::steady_clock::now();
  server.stop(milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(kPatienceMs));
  EXPECT_TRUE(tcp.is_ended());
}

// Asks over and over from new ports until told to stop; counts what stays without answer.
class Load {
 public:
  Load(SocketAddress to, bool tcp)
      : thread_([this, to, tcp] { tcp ? run_tcp(to) : run_udp(to); }) {}
  ~Load() { stop(); }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void wait_for_more(unsigned count) const {
    const unsigned until = answered + count;
    for (int waited = 0; waited < kPatienceMs && answered < until; ++waited) ::poll(nullptr, 0, 1);
    EXPECT_GE(answered, until);
  }
  std::atomic<unsigned> answered = 0;
  std::atomic<unsigned> lost = 0;

 private:
  void run_udp(const SocketAddress& to) {
    while (!stopping_) {
      UdpClient client;
      for (unsigned id = 0; id < 20; ++id) client.send(to, query_of(id));
      for (unsigned id = 0; id < 20; ++id) ++(client.receive(nullptr, 2000) ? answered : lost);
    }
  }
  void run_tcp(const SocketAddress& to) {
    while (!stopping_) {
      TcpClient client(to);
      ++(client.ask(query_of(1)) ? answered : lost);
    }
  }
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

TEST(WorkerTest, GetsNothingNewWhileOthersAreDealtTo) {
  constexpr std::size_t kCount = 60;  // by chance, a worker of three gets none once in 10^10 times
  Serving server({"127.0.0.1:0", "[::1]:0"}, 3);
  const auto shares = [&](const auto& ask) {
    std::array<std::size_t, 3> before;
    for (std::size_t i = 0; i < 3; ++i) before[i] = server.sinks[i]->clients().size();
    for (std::size_t listener = 0; listener < 2; ++listener)
      for (std::size_t i = 0; i < kCount; ++i) EXPECT_TRUE(ask(listener));
    std::string text;
    for (std::size_t i = 0; i < 3; ++i)
      text += server.sinks[i]->clients().size() > before[i] ? "some " : "none ";
    return text;
  };
  const auto udp = [&](std::size_t listener) {
    return UdpClient(listener == 1).ask(server.address(listener), query_of(1)).has_value();
  };
  const auto tcp = [&](std::size_t listener) {
    return TcpClient(server.address(listener)).ask(query_of(1)).has_value();
  };
  const auto expect_shares = [&](std::string_view expected) {
    EXPECT_EQ(shares(udp), expected) << "UDP";
    EXPECT_EQ(shares(tcp), expected) << "TCP";
  };
  expect_shares("some some some ");
  server.listeners.deal_to(std::array{0u, 2u});
  expect_shares("some none some ");
  server.listeners.deal_to(std::array{1u});
  expect_shares("none some none ");
  server.listeners.deal_to({});
  expect_shares("some some some ");
}

TEST(WorkerTest, KeepsTrafficThroughChangesOfListeners) {
  Serving server({"127.0.0.1:0"}, 2);
  const SocketAddress kept = server.address();
  Load udp(kept, false);
  Load tcp(kept, true);
  ListenerSet set = server.listeners;
  for (int i = 0; i < 20; ++i) {
    const std::vector<SocketAddress> wanted = {kept, address_of("127.0.0.2:0")};
    auto change = set.change_to(i % 2 == 0 ? std::span(wanted) : std::span(wanted).first(1));
    ASSERT_TRUE(change.failures.empty());
    EXPECT_EQ(change.opened.size(), i % 2 == 0 ? 1u : 0u);
    EXPECT_EQ(change.closed.size(), i % 2 == 0 ? 0u : 1u);
    set = std::move(change.set);
    for (const auto& worker : server.workers) worker->change_listeners(set);
    udp.wait_for_more(20);
    tcp.wait_for_more(5);
    if (i % 2 == 0) {
      UdpClient client;
      EXPECT_TRUE(client.ask(change.opened[0], query_of(1)).has_value());
    }
  }
  udp.stop();
  tcp.stop();
  EXPECT_EQ(udp.lost, 0u);
  EXPECT_EQ(tcp.lost, 0u);
}

TEST(WorkerTest, SendsLateRepliesOfAListenerThatWentAway) {
  Serving server({"127.0.0.1:0", "127.0.0.2:0"});
  UdpClient client;
  client.send(server.address(1), query_of(9, "H"));
  ASSERT_TRUE(server.wait_for(&WorkerCounters::udp_queries, 1));
  const std::vector<SocketAddress> wanted = {server.address(0)};
  server.workers[0]->change_listeners(server.listeners.change_to(wanted).set);
  server.on_worker(0, [&] { server.sinks[0]->release(); });
  IpAddress from;
  ASSERT_TRUE(client.receive(&from).has_value());
  EXPECT_EQ(from.to_string(), "127.0.0.2");
}

}  // namespace
}  // namespace meshdns::dnsd
