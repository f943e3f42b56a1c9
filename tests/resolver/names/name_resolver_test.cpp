// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/name_resolver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <uv.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "tests/resolver/names/message_builder.hpp"

namespace meshdns::resolver {
namespace {

using registry::ResolvedName;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kNs = "shop";

// Keeps every lookup until the test ends it.
class FakeLookups final : public Lookups {
 public:
  struct Flight : Lookup {
    Flight(FakeLookups& fake, std::string of, LookupCallback on_end)
        : lookups(fake), host(std::move(of)), callback(std::move(on_end)) {
      lookups.flights.push_back(this);
    }
    ~Flight() override { std::erase(lookups.flights, this); }
    FakeLookups& lookups;
    std::string host;
    LookupCallback callback;
  };

  std::unique_ptr<Lookup> start(const std::string& ns, const std::string& host, Family family,
                                LookupCallback callback) override {
    ++started;
    const std::string question = host + " " + std::string(to_string(family));
    return std::make_unique<Flight>(*this, ns == kNs ? question : ns + ": " + question,
                                    std::move(callback));
  }
  // Ends the oldest lookup of `host`, as c-ares would from the loop.
  void end(const std::string& host, Answer answer) {
    const auto found = std::ranges::find(flights, host, &Flight::host);
    ASSERT_NE(found, flights.end()) << host;
    const LookupCallback callback = (*found)->callback;
    callback(std::move(answer));
  }
  std::vector<std::string> in_flight() const {
    std::vector<std::string> hosts;
    for (const Flight* flight : flights) hosts.push_back(flight->host);
    return hosts;
  }

  std::vector<Flight*> flights;
  std::size_t started = 0;
};

class RecordingListener final : public ResolverListener {
 public:
  void on_resolved(std::string_view ns, std::vector<ResolvedName>&& names) override {
    ++batches;
    for (const ResolvedName& name : names) {
      std::string text = ns == kNs ? name.host : std::string(ns) + ": " + name.host;
      for (const IpAddress& address : name.addresses) text.append(" ").append(address.to_string());
      if (name.state == ResolvedName::State::Failed) text += " failed";
      events.push_back(text);
      if (then) then(name);
    }
  }
  std::size_t batches = 0;
  std::vector<std::string> events;
  std::function<void(const ResolvedName&)> then;
};

// Answers the names that a test gives it, in every namespace; all others lead outside.
class FakeMesh final : public MeshNames {
 public:
  MeshAnswer find(std::string_view, std::string_view, std::string_view name) override {
    ++asked;
    const auto known = answers.find(std::string(name));
    return known == answers.end() ? MeshAnswer{.is_outside = true} : known->second;
  }
  std::vector<std::string> names_of(std::string_view) const override { return names; }
  std::vector<std::string> namespaces() const override { return {std::string(kNs)}; }
  void know(const std::string& host, const char* address) {
    answers[host] = {false, {host, ResolvedName::State::Resolved, {*IpAddress::parse(address)}}};
  }
  void lead(const std::string& host, const std::string& target) {
    answers[host] = {.is_outside = true};
    answers[host].result.via = {target};
  }
  std::map<std::string, MeshAnswer> answers;
  std::vector<std::string> names;
  std::size_t asked = 0;
};

Answer answer_with(const char* text, seconds ttl = seconds{60}) {
  Answer answer;
  answer.status = Answer::Status::Addresses;
  answer.addresses = {*IpAddress::parse(text)};
  answer.ttl = ttl;
  return answer;
}
Answer no_data(seconds ttl = seconds{5}) {
  Answer answer;
  answer.status = Answer::Status::NoData;
  answer.ttl = ttl;
  return answer;
}

class NameResolverTest : public testing::Test {
 public:
  ~NameResolverTest() override {
    resolver_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }

 protected:
  NameResolverTest() { uv_loop_init(&loop_); }
  void open(Lookups& lookups, ResolverPolicy policy = {}) {
    resolver_ = std::make_unique<NameResolver>(
        &loop_, lookups, policy, [this] { return now_ + milliseconds(uv_now(&loop_)); }, listener_,
        &mesh_);
  }
  static std::chrono::nanoseconds elapsed() {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(uv_hrtime()));
  }
  void wait(milliseconds time) {
    const auto end = elapsed() + time;
    while (elapsed() < end) {
    }
    uv_update_time(&loop_);
  }
  // Long enough for the pauses between batches of results.  Counts rounds, not time, since a busy
  // machine may keep this process waiting for longer.
  void turn() {
    for (int i = 0; i < 30; ++i) {
      wait(milliseconds{1});
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }
  template <typename Condition>
  bool run_until(Condition condition, milliseconds limit) {
    const auto end = elapsed() + limit;
    while (!condition() && elapsed() < end) uv_run(&loop_, UV_RUN_ONCE);
    return condition();
  }

  uv_loop_t loop_{};
  // The time that a test skips, added to the loop's own time, which agrees with the timers and
  // stands still while other processes keep a callback waiting.
  TimePoint now_{};
  FakeLookups fake_;
  RecordingListener listener_;
  FakeMesh mesh_;
  std::unique_ptr<NameResolver> resolver_;
};

TEST_F(NameResolverTest, LooksUpAWatchedNameAndTellsTheListener) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  EXPECT_THAT(fake_.in_flight(), IsEmpty()) << "nothing happens within watch()";
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("db.example.org A", "db.example.org AAAA"));
  fake_.end("db.example.org A", answer_with("192.0.2.1"));
  fake_.end("db.example.org AAAA", no_data());
  EXPECT_THAT(listener_.events, IsEmpty()) << "told in a later turn of the loop";
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("db.example.org 192.0.2.1"));
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
}

TEST_F(NameResolverTest, UnwatchCancelsWhatIsInFlight) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  turn();
  resolver_->unwatch("db.example.org", kNs);
  EXPECT_EQ(resolver_->find("db.example.org", kNs), nullptr);
  turn();
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
  EXPECT_THAT(listener_.events, IsEmpty());
}

TEST_F(NameResolverTest, DestructionCancelsWhatIsInFlight) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  turn();
  resolver_.reset();
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
}

// A commit of the registry answers a change with names added and removed.
TEST_F(NameResolverTest, TheListenerMayWatchAndUnwatch) {
  open(fake_);
  listener_.then = [this](const ResolvedName& name) {
    if (name.host != "a.example.org") return;
    resolver_->unwatch("a.example.org", kNs);
    resolver_->watch("b.example.org", kNs);
  };
  resolver_->watch("a.example.org", kNs);
  turn();
  fake_.end("a.example.org AAAA", no_data());
  fake_.end("a.example.org A", answer_with("192.0.2.1"));
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("b.example.org A", "b.example.org AAAA"));
}

TEST_F(NameResolverTest, TenThousandNamesStayWithinTheBound) {
  open(fake_);
  for (int i = 0; i < 10'000; ++i) resolver_->watch(numbered("n", i, ".example.org"), kNs);
  turn();
  while (resolver_->counters().in_flight > 0) {
    ASSERT_LE(resolver_->counters().in_flight, 100u);
    const std::string host = fake_.flights.front()->host;
    constexpr seconds kUntilLongAfter{3'600};
    fake_.end(host, host.ends_with(" A") ? answer_with("192.0.2.1", kUntilLongAfter)
                                         : no_data(kUntilLongAfter));
    uv_run(&loop_, UV_RUN_NOWAIT);
  }
  EXPECT_EQ(fake_.started, 20'000u);
  // A batch of thousands of results is followed by a pause of 19 times its length.
  EXPECT_TRUE(run_until([this] { return listener_.events.size() == 10'000; }, milliseconds{5'000}));
  EXPECT_THAT(listener_.events, SizeIs(10'000));
}

TEST_F(NameResolverTest, TellsManyResultsInFewBatches) {
  open(fake_);
  for (int i = 0; i < 1'000; ++i) resolver_->watch(numbered("n", i, ".example.org"), kNs);
  turn();
  // A commit of 3 ms, as a set of thousands of endpoints has.
  listener_.then = [this, told = std::size_t{0}](const ResolvedName&) mutable {
    if (listener_.batches == told) return;
    told = listener_.batches;
    wait(milliseconds{3});
  };
  const auto start = elapsed();
  while (resolver_->counters().in_flight > 0) {
    const std::string host = fake_.flights.front()->host;
    fake_.end(host, host.ends_with(" A") ? answer_with("192.0.2.1") : no_data());
    uv_run(&loop_, UV_RUN_NOWAIT);
  }
  EXPECT_TRUE(run_until([this] { return listener_.events.size() == 1'000; }, milliseconds{2'000}));
  const auto took = std::chrono::duration_cast<milliseconds>(elapsed() - start).count();
  EXPECT_LE(listener_.batches, static_cast<std::size_t>(2 + took / 50));
}

TEST_F(NameResolverTest, LooksUpForEachNamespaceByItself) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  resolver_->watch("db.example.org", "bank");
  turn();
  EXPECT_THAT(fake_.in_flight(), SizeIs(4));
  fake_.end("db.example.org A", answer_with("192.0.2.1"));
  fake_.end("db.example.org AAAA", no_data());
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("db.example.org 192.0.2.1"));
  fake_.end("bank: db.example.org A", answer_with("192.0.2.2"));
  fake_.end("bank: db.example.org AAAA", no_data());
  turn();
  EXPECT_EQ(listener_.events.back(), "bank: db.example.org 192.0.2.2");
  EXPECT_THAT(listener_.events, SizeIs(2));
}

TEST_F(NameResolverTest, TellsThatNamesBeyondTheLimitHaveFailed) {
  ResolverPolicy policy;
  policy.max_names_per_namespace = 1;
  open(fake_, policy);
  EXPECT_TRUE(resolver_->watch("a.example.org", kNs));
  EXPECT_FALSE(resolver_->watch("b.example.org", kNs));
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("a.example.org A", "a.example.org AAAA"));
  EXPECT_THAT(listener_.events, ElementsAre("b.example.org failed"));
  ASSERT_THAT(resolver_->refused(), SizeIs(1));
  EXPECT_EQ(resolver_->refused()[0].names, 1u);
  resolver_->unwatch("a.example.org", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("b.example.org A", "b.example.org AAAA"));
  EXPECT_THAT(resolver_->refused(), IsEmpty());
}

TEST_F(NameResolverTest, TheMeshAnswersItsNames) {
  open(fake_);
  mesh_.know("web.shop.svc.cluster.local", "10.0.0.1");
  EXPECT_TRUE(resolver_->watch("web.shop.svc.cluster.local", kNs));
  EXPECT_THAT(listener_.events, IsEmpty()) << "told from the loop";
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("web.shop.svc.cluster.local 10.0.0.1"));
  EXPECT_EQ(fake_.started, 0u);
  ASSERT_THAT(resolver_->status(), SizeIs(1));
  EXPECT_EQ(resolver_->status()[0].ns, kNs);
  EXPECT_EQ(resolver_->counters().names, 1u);
  resolver_->unwatch("web.shop.svc.cluster.local", kNs);
  EXPECT_EQ(resolver_->counters().names, 0u);
}

TEST_F(NameResolverTest, ARecheckTellsOnlyWhatIsNew) {
  open(fake_);
  mesh_.know("web", "10.0.0.1");
  mesh_.names = {"web"};
  resolver_->watch("web", kNs);
  turn();
  resolver_->recheck("web", kNs);
  resolver_->recheck_namespace(kNs);
  turn();
  EXPECT_THAT(listener_.events, SizeIs(1)) << "the mesh says the same";
  mesh_.know("web", "10.0.0.2");
  resolver_->recheck("web", kNs);
  turn();
  mesh_.know("web", "10.0.0.3");
  resolver_->recheck_all();
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("web 10.0.0.1", "web 10.0.0.2", "web 10.0.0.3"));
}

TEST_F(NameResolverTest, ManyRechecksOfANameAskTheMeshOnce) {
  open(fake_);
  mesh_.know("web", "10.0.0.1");
  resolver_->watch("web", kNs);
  turn();
  const std::size_t asked = mesh_.asked;
  for (int i = 0; i < 1'000; ++i) resolver_->recheck("web", kNs);
  turn();
  EXPECT_EQ(mesh_.asked, asked + 1);
}

TEST_F(NameResolverTest, ANameThatTheMeshTakesOverIsLookedUpNoLonger) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), SizeIs(2));
  mesh_.know("db.example.org", "10.0.0.1");
  resolver_->recheck("db.example.org", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
  EXPECT_THAT(listener_.events, ElementsAre("db.example.org 10.0.0.1"));
  mesh_.answers.clear();
  resolver_->recheck("db.example.org", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("db.example.org A", "db.example.org AAAA"));
}

// A name of the mesh that is an alias to the outside.
TEST_F(NameResolverTest, ANameIsLookedUpAgainWhenItsAliasLeadsElsewhere) {
  open(fake_);
  mesh_.lead("one.shop", "a.example.org");
  resolver_->watch("one.shop", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("one.shop A", "one.shop AAAA"));
  fake_.end("one.shop A", answer_with("192.0.2.1"));
  fake_.end("one.shop AAAA", no_data(seconds{60}));
  turn();
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
  mesh_.lead("one.shop", "b.example.org");
  resolver_->recheck("one.shop", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("one.shop A", "one.shop AAAA"));
}

Answer through(const std::string& alias, Answer answer) {
  answer.via = {alias};
  return answer;
}

TEST_F(NameResolverTest, AnAliasOutsideThatLeadsBackGetsTheMeshsWord) {
  open(fake_);
  mesh_.know("vip.example.org", "10.0.0.1");
  resolver_->watch("out.example.net", kNs);
  turn();
  fake_.end("out.example.net A", through("vip.example.org", answer_with("10.0.0.1")));
  fake_.end("out.example.net AAAA", through("vip.example.org", no_data(seconds{60})));
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("out.example.net 10.0.0.1"));
  // At once, and without a lookup.
  mesh_.know("vip.example.org", "10.0.0.2");
  resolver_->recheck("out.example.net", kNs);
  turn();
  EXPECT_THAT(listener_.events,
              ElementsAre("out.example.net 10.0.0.1", "out.example.net 10.0.0.2"));
  EXPECT_EQ(resolver_->status()[0].name.addresses[0].to_string(), "10.0.0.2");
  // The mesh does not answer any more: the next lookup tells.
  mesh_.answers.clear();
  resolver_->recheck("out.example.net", kNs);
  turn();
  EXPECT_THAT(fake_.in_flight(), ElementsAre("out.example.net A", "out.example.net AAAA"));
}

TEST_F(NameResolverTest, RetryAllAsksForAllNamesSoon) {
  open(fake_);
  resolver_->watch("db.example.org", kNs);
  turn();
  fake_.end("db.example.org A", answer_with("192.0.2.1", seconds{3'600}));
  resolver_->retry_all();
  EXPECT_TRUE(run_until([this] { return fake_.started == 3; }, milliseconds{10'000}));
  // The answer of a lookup under way may have come from the servers before.
  fake_.end("db.example.org AAAA", no_data(seconds{3'600}));
  EXPECT_TRUE(run_until([this] { return fake_.started == 4; }, milliseconds{10'000}));
}

TEST_F(NameResolverTest, SaysWhyANameHasNoAddress) {
  open(fake_);
  resolver_->watch("gone.example.org", kNs);
  turn();
  Answer denied = no_data();
  denied.status = Answer::Status::NoName;
  fake_.end("gone.example.org A", denied);
  fake_.end("gone.example.org AAAA", denied);
  turn();
  EXPECT_EQ(resolver_->counters().names_failed, 1u);
  const auto status = resolver_->status();
  ASSERT_THAT(status, SizeIs(1));
  EXPECT_EQ(status[0].name.reason, "the name does not exist (NXDOMAIN)");
  EXPECT_EQ(status[0].families[0].last_error, "the name does not exist (NXDOMAIN)");
}

TEST_F(NameResolverTest, RetryFailedAsksAgainSoon) {
  ResolverPolicy policy;
  policy.refresh.min_backoff = policy.refresh.max_backoff = milliseconds{600'000};
  open(fake_, policy);
  resolver_->watch("db.example.org", kNs);
  turn();
  fake_.end("db.example.org A", Answer{});
  fake_.end("db.example.org AAAA", Answer{});
  turn();
  EXPECT_THAT(listener_.events, ElementsAre("db.example.org failed"));
  EXPECT_THAT(fake_.in_flight(), IsEmpty());
  resolver_->retry_failed();
  EXPECT_TRUE(run_until([this] { return fake_.flights.size() == 2; }, milliseconds{3'000}));
}

}  // namespace
}  // namespace meshdns::resolver
