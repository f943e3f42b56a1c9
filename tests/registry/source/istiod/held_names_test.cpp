// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "tests/registry/source/fake_registry.hpp"

namespace meshdns::registry::istiod {
namespace {

using Effect = OriginChange::Effect;

// "IP NAMESPACE": an info message in these tests.  "" is none, and "*N" one with N alternative
// hosts.
class WordReader final : public MessageReader {
 public:
  const NameInfo* read_name(std::string_view info) override {
    ++reads;
    const auto space = info.find(' ');
    info_ = {};
    if (info.starts_with('*')) {
      info_.alt_hosts.assign(std::stoul(std::string(info.substr(1))), "b.example");
      return &info_;
    }
    if (space == std::string_view::npos) return nullptr;
    info_.ips = {info.substr(0, space)};
    info_.ns = info.substr(space + 1);
    return &info_;
  }
  std::optional<ApiAddress> read_address(std::string_view) override { return std::nullopt; }
  int reads = 0;

 private:
  NameInfo info_;
};

struct NamedTable {
  std::string name;
  std::vector<std::pair<std::string, std::string>> names;
  std::string version = {};
};

// The registry has "ns/host ip" of each object.
class HeldNamesTest : public ::testing::Test {
 protected:
  HeldNames::Difference push(const std::vector<NamedTable>& tables,
                             std::vector<std::string> removed = {}, bool is_whole = false) {
    Push push;
    push.is_whole = is_whole;
    push.removed = std::move(removed);
    for (const NamedTable& table : tables) {
      PushedTable& pushed = push.tables.emplace_back(PushedTable{table.name, table.version, {}});
      for (const auto& [host, info] : table.names) pushed.names.push_back({host, info});
    }
    auto difference = held_.take(push, reader_);
    EXPECT_TRUE(difference);
    registry_.apply(difference->changes);
    return *std::move(difference);
  }

  // One more than small_ holds.
  static std::vector<std::string> many(const std::string& prefix) {
    std::vector<std::string> all;
    for (int i = 0; i <= 10; ++i) all.push_back(prefix + std::to_string(i));
    return all;
  }

  std::string all() const { return registry_.print("; "); }

  HeldNames held_{"istiod:x"};
  HeldNames small_{"istiod:x", {.names = 10, .parts = 80}};
  WordReader reader_;
  FakeRegistry registry_{[](const StoredResource& object) {
    const auto entry = std::get<NameTableEntry>(object.decode());
    return entry.meta.ns + "/" + entry.meta.name + " " + entry.ips.at(0).to_string();
  }};
};

TEST_F(HeldNamesTest, OnlyWhatHasChangedIsReadAndPassedOn) {
  EXPECT_EQ(push({{"", {{"a.example", "10.0.0.1 n"}, {"b.example", "10.0.0.2 n"}}}}).changed, 2U);
  EXPECT_EQ(reader_.reads, 2);
  const auto difference = push({{"", {{"b.example", "10.0.0.3 n"}, {"a.example", "10.0.0.1 n"}}}});
  EXPECT_EQ(reader_.reads, 3);
  EXPECT_EQ(difference.changed, 1U);
  ASSERT_EQ(difference.changes.size(), 1U);
  EXPECT_EQ(difference.changes[0].effect, Effect::Update);
  EXPECT_EQ(difference.changes[0].resources.size(), 1U);
  EXPECT_EQ(all(), "n/a.example 10.0.0.1; n/b.example 10.0.0.3");
}

TEST_F(HeldNamesTest, AnEqualPushChangesNothing) {
  const std::vector<NamedTable> tables = {{"", {{"a.example", "10.0.0.1 n"}}}};
  push(tables);
  const auto difference = push(tables);
  EXPECT_EQ(difference.changed, 0U);
  EXPECT_TRUE(difference.changes.empty());
}

TEST_F(HeldNamesTest, TheFirstPushReplacesWhatAnEarlierRunLeft) {
  const auto difference = push({{"", {{"a.example", "10.0.0.1 n"}}}});
  ASSERT_EQ(difference.changes.size(), 1U);
  EXPECT_EQ(difference.changes[0].effect, Effect::Replace);
  EXPECT_EQ(push({{"", {}}}).changed, 1U);
  EXPECT_EQ(all(), "");
}

TEST_F(HeldNamesTest, AnEmptyFirstTableReplacesWhatAnEarlierRunLeft) {
  const auto difference = push({{"", {}}});
  ASSERT_EQ(difference.changes.size(), 1U);
  EXPECT_EQ(difference.changes[0].effect, Effect::Replace);
}

TEST_F(HeldNamesTest, ANameInAnotherNamespaceLeavesTheOldOne) {
  push({{"", {{"a.example", "10.0.0.1 n"}}}});
  push({{"", {{"a.example", "10.0.0.1 m"}}}});
  EXPECT_EQ(all(), "m/a.example 10.0.0.1");
}

TEST_F(HeldNamesTest, AFaultyNameKeepsItsLastGoodVersion) {
  push({{"", {{"a.example", "10.0.0.1 n"}, {"b.example", "10.0.0.2 n"}}}});
  const auto difference = push({{"", {{"a.example", "bad n"}, {"c_c.example", "10.0.0.1 n"}}}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
  EXPECT_EQ(held_.refused(), 2U);
  ASSERT_EQ(difference.changes.size(), 1U);
  EXPECT_EQ(difference.changes[0].findings.size(), 3U);
  push({{"", {{"a.example", "10.0.0.1 n"}}}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
  EXPECT_EQ(held_.refused(), 0U);
  EXPECT_TRUE(held_.findings().empty());
}

TEST_F(HeldNamesTest, AFaultyNameOfTheFirstPushKeepsWhatAnEarlierRunLeft) {
  const auto first = push({{"", {{"a.example", "bad n"}, {"b.example", "10.0.0.2 n"}}}});
  const ResourceKey key{Kind::NameTableEntry, "", "n", "a.example"};
  EXPECT_EQ(first.changes.at(0).kept, std::vector<std::uint64_t>{hash_of(key)});
  const auto second = push({{"", {{"a.example", "bad n"}}}});
  const ResourceKey gone{Kind::NameTableEntry, "", "n", "b.example"};
  EXPECT_EQ(second.changes.at(0).removed, std::vector<std::uint64_t>{hash_of(gone)});
}

TEST_F(HeldNamesTest, WhatIsNoNameInfoRefusesTheName) {
  push({{"", {{"a.example", ""}, {"b.example", "10.0.0.2 n"}}}});
  EXPECT_EQ(all(), "n/b.example 10.0.0.2");
  EXPECT_EQ(held_.refused(), 1U);
}

TEST_F(HeldNamesTest, TheLastOfTwoEqualHostsCounts) {
  push({{"", {{"a.example", "10.0.0.1 n"}, {"a.example", "10.0.0.2 n"}}}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.2");
  EXPECT_EQ(held_.size(), 1U);
}

// protobuf does not order maps.
TEST_F(HeldNamesTest, TheOrderOfHostsThatDifferInCaseHasNoEffect) {
  std::vector<std::pair<std::string, std::string>> names = {{"A.Example.", "10.0.0.1 n"},
                                                            {"A.example", "10.0.0.2 n"},
                                                            {"a.Example", "10.0.0.3 n"},
                                                            {"a.example", "10.0.0.4 n"}};
  do {
    push({{"", {names.begin(), names.end()}}});
    EXPECT_EQ(all(), "n/a.example 10.0.0.1");
  } while (std::ranges::next_permutation(names).found);
}

TEST_F(HeldNamesTest, TablesWithNamesComeAndGoByThemselves) {
  push({{"t", {{"a.example", "10.0.0.1 n"}}, "1"}, {"u", {{"b.example", "10.0.0.2 n"}}, "1"}});
  push({{"u", {{"c.example", "10.0.0.3 n"}}, "2"}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1; n/c.example 10.0.0.3");
  push({}, {"t", "unknown"});
  EXPECT_EQ(all(), "n/c.example 10.0.0.3");
  const auto held = held_.begin_stream();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].name + held[0].version, "u2");
}

// istiod could not say that it is gone.
TEST_F(HeldNamesTest, TheNextStreamHasATableWithoutAVersion) {
  push({{"", {{"a.example", "10.0.0.1 n"}}}, {"t", {{"b.example", "10.0.0.2 n"}}}});
  const auto held = held_.begin_stream();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].name + held[0].version, "t");
}

TEST_F(HeldNamesTest, TheNextStreamBeginsAnewWithMoreTablesThanARequestHolds) {
  const std::string version(kMaxVersionOctets / 2, 'v');
  push({{"t", {{"a.example", "10.0.0.1 n"}}, version},
        {"u", {{"b.example", "10.0.0.2 n"}}, version}});
  EXPECT_TRUE(held_.begin_stream().empty());
  EXPECT_EQ(push({}).changed, 0U);
  push({{"u", {{"b.example", "10.0.0.2 n"}}, "1"}});
  EXPECT_EQ(all(), "n/b.example 10.0.0.2");
  push({{"t", {{"a.example", "10.0.0.1 n"}}, "1"}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1; n/b.example 10.0.0.2");
  EXPECT_EQ(held_.begin_stream().size(), 2U);
}

TEST_F(HeldNamesTest, AHostMovesFromOneTableToAnother) {
  push({{"t", {{"a.example", "10.0.0.1 n"}}}});
  push({{"u", {{"a.example", "10.0.0.1 n"}}}});
  push({}, {"t"});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
}

// The simple model: a push replaces all names of the tables that it mentions.
TEST_F(HeldNamesTest, AnySequenceOfPushesGivesTheNamesOfASimpleModel) {
  std::mt19937 dice(7);
  const auto below = [&](std::size_t limit) { return dice() % limit; };
  std::map<std::string, std::pair<std::string, std::string>> model;  // host: table, line
  for (int round = 0; round < 3'000; ++round) {
    const bool is_whole = below(10) == 0;
    std::vector<NamedTable> tables(below(3) + (is_whole ? 1 : 0));
    std::vector<std::string> removed;
    if (below(4) == 0) removed.push_back("t" + std::to_string(below(5)));
    for (NamedTable& table : tables) {
      table.name = "t" + std::to_string(below(5));
      for (std::size_t i = below(6); i-- > 0;)
        table.names.push_back({"h" + std::to_string(below(12)) + ".example",
                               "10.0.0." + std::to_string(below(3)) + (below(2) ? " n" : " m")});
    }
    std::erase_if(model, [&](const auto& item) {
      const std::string& table = item.second.first;
      return is_whole || std::ranges::find(removed, table) != removed.end() ||
             std::ranges::find(tables, table, &NamedTable::name) != tables.end();
    });
    for (const NamedTable& table : tables)
      for (const auto& [host, info] : table.names)
        model[host] = {table.name, info.substr(info.find(' ') + 1) + "/" + host + " " +
                                       info.substr(0, info.find(' '))};
    push(tables, removed, is_whole);
    FakeRegistry::Texts expected;
    for (const auto& [host, item] : model) expected.insert(item.second);
    ASSERT_EQ(registry_.texts(), expected) << "round " << round;
    ASSERT_EQ(held_.size(), model.size()) << "round " << round;
  }
}

TEST_F(HeldNamesTest, AWholePushEndsTablesThatItDoesNotHave) {
  push({{"t", {{"a.example", "10.0.0.1 n"}}}, {"u", {{"b.example", "10.0.0.2 n"}}}}, {}, true);
  push({{"u", {{"b.example", "10.0.0.2 n"}}}}, {}, true);
  EXPECT_EQ(all(), "n/b.example 10.0.0.2");
}

TEST_F(HeldNamesTest, APushWithoutATableTakesNothingAway) {
  push({{"", {{"a.example", "10.0.0.1 n"}}}});
  EXPECT_EQ(push({}, {}, true).changed, 0U);
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
}

TEST_F(HeldNamesTest, TooManyNamesAreRefusedAsAWhole) {
  Push push;
  push.tables.push_back({"", "", {{"a.example", "10.0.0.1 n"}}});
  EXPECT_TRUE(small_.take(push, reader_));
  const auto hosts = many("h");
  push.tables[0].names.clear();
  for (const std::string& host : hosts) push.tables[0].names.push_back({host, "10.0.0.1 n"});
  const auto refused = small_.take(push, reader_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the push would make more than 10 names");
  EXPECT_EQ(small_.size(), 1U);
}

TEST_F(HeldNamesTest, TheLimitCountsTheTablesThatAPushDoesNotMention) {
  auto hosts = many("h");
  hosts.pop_back();
  Push all;
  all.tables.push_back({"t", "", {}});
  for (const std::string& host : hosts) all.tables[0].names.push_back({host, "10.0.0.1 n"});
  EXPECT_TRUE(small_.take(all, reader_));
  Push more;
  more.tables.push_back({"u", "", {{"a.example", "10.0.0.1 n"}}});
  EXPECT_FALSE(small_.take(more, reader_));
  more.tables[0].name = "t";
  EXPECT_TRUE(small_.take(more, reader_));
  EXPECT_EQ(small_.size(), 1U);
}

// A hostile istiod could add to the memory with every push.
TEST_F(HeldNamesTest, TheAddressesAndAlternativeHostsOfAllNamesAreLimited) {
  static_assert(HeldNames::kPartsOfAltHost == 4);
  const auto take = [this](const char* table, const std::string& info) {
    Push push;
    push.tables.push_back({table, "", {{std::string_view(table), info}}});
    EXPECT_TRUE(small_.take(push, reader_));
  };
  take("a.example", "*10");
  take("b.example", "*10");
  EXPECT_EQ(small_.refused(), 0U);
  take("c.example", "10.0.0.1 n");
  ASSERT_EQ(small_.findings().size(), 1U);
  EXPECT_EQ(small_.findings()[0].object + ": " + small_.findings()[0].message,
            "c.example: there are more than 80 addresses and alternative hosts");
  take("b.example", "*9");
  take("c.example", "10.0.0.1 n");
  EXPECT_EQ(small_.refused(), 0U);
}

TEST_F(HeldNamesTest, AHugeNameInfoIsNotRead) {
  push({{"", {{"a.example", std::string(HeldNames::kMaxInfoOctets + 1, 'x')}}}});
  EXPECT_EQ(reader_.reads, 0);
  EXPECT_EQ(held_.refused(), 1U);
}

TEST_F(HeldNamesTest, TheTablesAreLimited) {
  auto names = many("t");
  names.pop_back();
  Push push;
  for (const std::string& name : names) push.tables.push_back({name, "", {}});
  EXPECT_TRUE(small_.take(push, reader_));
  EXPECT_TRUE(small_.take(push, reader_));
  push.tables.resize(1);
  push.tables[0].name = "u";
  const auto refused = small_.take(push, reader_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the push would make more than 10 tables");
  push.is_whole = true;
  EXPECT_TRUE(small_.take(push, reader_));
}

TEST_F(HeldNamesTest, TheFindingsAreLimited) {
  NamedTable table;
  for (int i = 0; i < 3'000; ++i) table.names.emplace_back("a_" + std::to_string(i), "10.0.0.1 n");
  push({table});
  EXPECT_EQ(held_.refused(), 3'000U);
  EXPECT_EQ(held_.findings().size(), HeldNames::kMaxFaulty);
}

}  // namespace
}  // namespace meshdns::registry::istiod
