// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/top_queries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "registry/base/hash.hpp"
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kOneSecond = 1'000'000'000;
constexpr std::uint64_t kNoon = 100 * TopQueries::kHalf;  // a half begins

using NameTable = HeavyHitters<256, 90, 1024, std::uint32_t>;

void note_name(NameTable& table, const std::string& name) {
  table.note({.key = hash_bytes(name), .text = name});
}

// Numbers of which the i-th is drawn in proportion to 1 / i.
std::vector<std::size_t> zipf_stream(std::size_t keys, std::size_t events) {
  std::vector<double> weights;
  for (std::size_t i = 1; i <= keys; ++i) weights.push_back(1.0 / static_cast<double>(i));
  std::discrete_distribution<std::size_t> draw(weights.begin(), weights.end());
  std::mt19937_64 random(7);
  std::vector<std::size_t> stream;
  for (std::size_t i = 0; i < events; ++i) stream.push_back(draw(random));
  return stream;
}

TEST(HeavyHittersTest, BoundsTheExactCountsOfAZipfStream) {
  const auto table = std::make_unique<NameTable>();
  std::map<std::string, std::uint64_t> exact;
  for (const std::size_t key : zipf_stream(20'000, 300'000)) {
    const std::string name = "name-" + std::to_string(key);
    note_name(*table, name);
    ++exact[name];
  }
  EXPECT_EQ(table->total(), 300'000U);
  EXPECT_LE(table->least(), 300'000U / 256);
  std::set<std::string> placed;
  const auto places = table->places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string name(places[i].text.data(), places[i].size);
    placed.insert(name);
    EXPECT_GE(table->amount(i), exact[name]) << name;
    EXPECT_LE(table->amount(i) - places[i].error, exact[name]) << name;
  }
  EXPECT_EQ(placed.size(), 256U);
  for (const auto& [name, count] : exact)
    if (!placed.contains(name)) {
      EXPECT_LE(count, table->least()) << name;
    }
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(placed.contains("name-" + std::to_string(i))) << i;
}

TEST(HeavyHittersTest, CountsExactlyWhileThereIsRoom) {
  const auto table = std::make_unique<NameTable>();
  for (int i = 0; i < 256; ++i)
    for (int n = 0; n <= i; ++n) note_name(*table, std::to_string(i));
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(table->amount(i), i + 1);
    EXPECT_EQ(table->places()[i].error, 0U);
  }
  EXPECT_EQ(table->least(), 1U);
  table->clear();
  EXPECT_EQ(table->places().size(), 0U);
  EXPECT_EQ(table->total(), 0U);
}

// Each honest name has 1 of 600 queries, which is less than 1 of 256 places: Space-Saving without a
// filter would forget it again and again.
TEST(HeavyHittersTest, KeepsHonestNamesThroughAMillionRandomOnes) {
  const auto table = std::make_unique<NameTable>();
  std::mt19937_64 random(11);
  for (int round = 0; round < 2'000; ++round)
    for (int i = 0; i < 600; ++i) {
      if (i % 6 == 0)
        note_name(*table, "honest-" + std::to_string(i / 6));
      else
        note_name(*table, std::to_string(random()) + ".example");
    }
  std::vector<std::pair<std::uint64_t, std::string>> ranked;
  for (std::size_t i = 0; i < table->places().size(); ++i) {
    const auto& place = table->places()[i];
    ranked.emplace_back(table->amount(i) - place.error, std::string(place.text.data(), place.size));
  }
  std::ranges::sort(ranked, std::greater{});
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(ranked[i].second.starts_with("honest-")) << ranked[i].second;
    EXPECT_GE(ranked[i].first, 500U) << ranked[i].second;
    EXPECT_LE(ranked[i].first, 2'000U) << ranked[i].second;
  }
}

TEST(EventSamplerTest, CountsEachEventWhileTheyAreRare) {
  EventSampler sampler(1);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint64_t now = kNoon + i * 2'000'000;  // 500 a second
    sampler.observe(now);
    ASSERT_TRUE(sampler.is_due());
    ASSERT_EQ(sampler.take(now), 1U);
  }
}

TEST(EventSamplerTest, TakesFewOfManyAndStandsForAll) {
  for (const std::uint64_t rate : {10'000, 100'000, 1'000'000}) {
    EventSampler sampler(rate);
    std::uint64_t taken = 0;
    std::uint64_t sum = 0;
    const std::uint64_t events = 10 * rate;
    for (std::uint64_t i = 0; i < events; ++i) {
      const std::uint64_t now = kNoon + i * kOneSecond / rate;
      sampler.observe(now);
      if (!sampler.is_due()) continue;
      ++taken;
      sum += sampler.take(now);
    }
    EXPECT_GE(taken, 2'000U) << rate;
    EXPECT_LE(taken, 12'000U) << rate;
    EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(events), 1, 0.05) << rate;
  }
}

TEST(EventSamplerTest, CountsEachEventAgainAfterAFlood) {
  EventSampler sampler(3);
  for (int i = 0; i < 1'000'000; ++i)
    if (sampler.is_due()) sampler.take(kNoon);
  EXPECT_FALSE(sampler.is_due());
  sampler.observe(kNoon + 10 * kOneSecond);
  ASSERT_TRUE(sampler.is_due());
  EXPECT_EQ(sampler.take(kNoon + 10 * kOneSecond), 1U);
}

class TopQueriesTest : public testing::Test {
 protected:
  void ask(TopQueries& top, const std::string& name, std::uint64_t now,
           const std::string& client = "10.0.0.1", const std::string& ns = "shop") {
    top.begin_batch(now);
    if (top.is_due()) top.note_query(name, *IpAddress::parse(client), ns, now);
  }
  static TopReport report(std::vector<TopQueries*> workers, std::uint64_t now,
                          std::size_t limit = 10) {
    return TopQueries::report(workers, limit, now);
  }
  static std::string lines(const TopList& list) {
    std::string lines;
    for (const auto& entry : list)
      lines += (lines.empty() ? "" : ", ") + entry.text + " " + std::to_string(entry.amount);
    return lines;
  }

  std::unique_ptr<TopQueries> top_ = std::make_unique<TopQueries>(kNoon, 5);
};

TEST_F(TopQueriesTest, TakesLittleMemory) { EXPECT_LE(sizeof(TopQueries), 180U * 1024); }

TEST_F(TopQueriesTest, RanksNamesClientsAndNamespaces) {
  for (int i = 0; i < 3; ++i) ask(*top_, "a.example", kNoon + 1);
  ask(*top_, "b.example", kNoon + 2, "10.0.0.2", "bank");
  ask(*top_, "c.example", kNoon + 2, "10.0.0.2", "");
  const TopReport top = report({top_.get()}, kNoon + 2 * kOneSecond, 2);
  EXPECT_EQ(top.queries, 5U);
  EXPECT_EQ(top.seconds, 2);
  EXPECT_EQ(top.names.size(), 2U);
  EXPECT_EQ(lines({top.names[0]}), "a.example 3");
  EXPECT_EQ(top.clients[0].amount, 3U);
  EXPECT_EQ(top.clients[1].amount, 2U);
  EXPECT_EQ(lines(top.namespaces), "shop 3, bank 1");
}

TEST_F(TopQueriesTest, AddsUpWorkers) {
  TopQueries other(kNoon, 6);
  ask(*top_, "a.example", kNoon);
  for (int i = 0; i < 2; ++i) ask(other, "a.example", kNoon);
  ask(other, "b.example", kNoon);
  EXPECT_EQ(lines(report({top_.get(), &other}, kNoon + kOneSecond).names),
            "a.example 3, b.example 1");
}

TEST_F(TopQueriesTest, ForgetsAfterAMinute) {
  ask(*top_, "old.example", kNoon + 29 * kOneSecond);
  ask(*top_, "new.example", kNoon + 31 * kOneSecond);
  EXPECT_EQ(report({top_.get()}, kNoon + 59 * kOneSecond).names.size(), 2U);
  const TopReport later = report({top_.get()}, kNoon + 61 * kOneSecond);
  EXPECT_EQ(lines(later.names), "new.example 1");
  EXPECT_EQ(later.seconds, 31);
  EXPECT_TRUE(report({top_.get()}, kNoon + 91 * kOneSecond).names.empty());
  ask(*top_, "newest.example", kNoon + 121 * kOneSecond);
  EXPECT_EQ(lines(report({top_.get()}, kNoon + 122 * kOneSecond).names), "newest.example 1");
}

TEST_F(TopQueriesTest, KeepsTheEndOfALongName) {
  const std::string end = std::string(40, 'y') + "." + std::string(40, 'z') + ".example";
  ask(*top_, std::string(63, 'a') + "." + end, kNoon);
  ask(*top_, std::string(63, 'b') + "." + end, kNoon);
  ask(*top_, std::string(90, 'c'), kNoon);
  const TopReport top = report({top_.get()}, kNoon + 1);
  ASSERT_EQ(top.names.size(), 3U);
  std::size_t cut = 0;
  for (const auto& entry : top.names) {
    if (!entry.is_cut) continue;
    ++cut;
    EXPECT_EQ(entry.text, end);
  }
  EXPECT_EQ(cut, 2U);
}

TEST_F(TopQueriesTest, RanksForwardedNamesByTheTimeThatClientsWait) {
  for (int i = 0; i < 10; ++i) top_->note_forwarded("fast.example", 1'000'000, kNoon);
  top_->note_forwarded("slow.example", 1'500'000'000, kNoon);
  top_->note_forwarded("slow.example", 500'000'000, kNoon);
  const TopReport top = report({top_.get()}, kNoon + 1);
  EXPECT_EQ(lines(top.forwarded), "slow.example 2000000, fast.example 10000");
  EXPECT_EQ(top.forwarded[0].part, 2U);
  EXPECT_EQ(top.forwarded[0].peak, 1'500'000U);
}

TEST_F(TopQueriesTest, TellsLimitedFromRefusedClients) {
  const IpAddress client = *IpAddress::parse("192.0.2.7");
  top_->note_refused(client, TopQueries::Refusal::Refused, kNoon);
  top_->note_refused(client, TopQueries::Refusal::Limited, kNoon);
  const TopReport top = report({top_.get()}, kNoon + 1);
  ASSERT_EQ(top.refused_clients.size(), 1U);
  EXPECT_EQ(top.refused_clients[0].amount, 2U);
  EXPECT_EQ(top.refused_clients[0].part, 1U);
  EXPECT_EQ(top.refused, 2U);
}

// 100,000 queries a second for 12 s, of which one client sends most: with sampling, as the daemon
// counts them.
TEST_F(TopQueriesTest, ShowsHonestNamesAndTheAuthorOfAFlood) {
  std::mt19937_64 random(13);
  std::uint64_t now = kNoon;
  for (int i = 0; i < 1'200'000; ++i) {
    now += 10'000;
    const std::uint64_t drawn = random();
    if (drawn % 6 == 0)
      ask(*top_, "honest-" + std::to_string(drawn / 6 % 20), now,
          "10.0.1." + std::to_string(drawn / 6 % 200));
    else
      ask(*top_, std::to_string(drawn) + ".example", now, "192.0.2.66", "evil");
  }
  const TopReport top = report({top_.get()}, now, 20);
  EXPECT_NEAR(static_cast<double>(top.queries), 1'200'000, 60'000);
  for (const auto& entry : top.names) {
    EXPECT_TRUE(entry.text.starts_with("honest-")) << entry.text;
    EXPECT_GT(entry.amount, 3'000U) << entry.text;  // of 10,000
    EXPECT_LT(entry.amount, 17'000U) << entry.text;
  }
  EXPECT_EQ(top.namespaces.front().text, "evil");
  EXPECT_GT(top.clients.front().amount, 900'000U);
}

TEST_F(TopQueriesTest, IsReadWhileItCounts) {
  std::thread worker([&] {
    for (int i = 0; i < 20'000; ++i) ask(*top_, std::to_string(i % 300), kNoon);
  });
  for (int i = 0; i < 20; ++i) {
    const TopReport top = report({top_.get()}, kNoon + 1);
    for (const auto& entry : top.names) EXPECT_LT(std::stoi(entry.text), 300);
  }
  worker.join();
}

class TopOfHandlerTest : public QueryFixture {
 protected:
  TopReport top() {
    std::vector<TopQueries*> workers{&handler().top()};
    return TopQueries::report(workers, 10, clock_.precise_now());
  }
};

TEST_F(TopOfHandlerTest, CountsAnswersOfAllKinds) {
  be_authority();
  be_in("shop");
  load_api();
  ask("api.example.org. A");
  ask("api.example.org. AAAA");
  ask_through("www.example.net. A");
  clock_.advance(10);
  const TopReport top = this->top();
  ASSERT_EQ(top.names.size(), 2U);
  EXPECT_EQ(top.names[0].text, "api.example.org");
  EXPECT_EQ(top.names[0].amount, 2U);
  ASSERT_EQ(top.namespaces.size(), 1U);
  EXPECT_EQ(top.namespaces[0].text, "shop");
  ASSERT_EQ(top.forwarded.size(), 1U);
  EXPECT_EQ(top.forwarded[0].text, "www.example.net");
  EXPECT_TRUE(top.refused_clients.empty());
}

TEST_F(TopOfHandlerTest, CountsRefusedAndLimitedClients) {
  settings_.rate_limit.responses_per_second = 1;
  settings_.allow = AccessList({*IpPrefix::parse("127.0.0.0/8")});
  ask("a.example. A", {.from = "192.0.2.7"});
  for (int i = 0; i < 3; ++i) ask("a.localhost. A", {.from = "127.0.0.2"});
  const TopReport top = this->top();
  ASSERT_EQ(top.refused_clients.size(), 2U);
  EXPECT_EQ(top.refused_clients[0].amount, 2U);
  EXPECT_EQ(top.refused_clients[0].part, 2U);
  EXPECT_EQ(top.refused_clients[1].amount, 1U);
  EXPECT_EQ(top.refused_clients[1].part, 0U);
  EXPECT_EQ(top.queries, 4U);
}

TEST_F(TopOfHandlerTest, CountsMessagesWithoutAName) {
  std::vector<std::uint8_t> buffer(kUdpBufferSize);
  buffer[5] = 2;  // two questions, of which there are no octets
  EXPECT_EQ(ask_octets(buffer, 12), "");
  buffer.assign(kUdpBufferSize, 0);
  buffer[2] = 0x80;  // a response
  EXPECT_EQ(ask_octets(buffer, 12), "NO REPLY");
  const TopReport top = this->top();
  EXPECT_EQ(top.queries, 1U);
  EXPECT_EQ(top.clients.size(), 1U);
  EXPECT_TRUE(top.names.empty());
}

}  // namespace
}  // namespace meshdns::dnsd
