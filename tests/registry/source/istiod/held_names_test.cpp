// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry::istiod {
namespace {

using Effect = OriginChange::Effect;

// "IP NAMESPACE": an info message in these tests.  "" is none.
class WordReader final : public NameInfoReader {
 public:
  const NameInfo* read(std::string_view info) override {
    ++reads;
    const auto space = info.find(' ');
    if (space == std::string_view::npos) return nullptr;
    info_.ips = {info.substr(0, space)};
    info_.ns = info.substr(space + 1);
    return &info_;
  }
  int reads = 0;

 private:
  NameInfo info_;
};

struct NamedTable {
  std::string name;
  std::vector<std::pair<std::string, std::string>> names;
  std::string version = {};
};

// Plays the registry: what the origin holds after all changes, as "ns/host ip".
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
    for (const OriginChange& change : difference->changes) apply(change);
    return *std::move(difference);
  }

  std::string all() const {
    std::string text;
    for (const auto& [hash, line] : objects_) text += text.empty() ? line : "; " + line;
    return text;
  }

  HeldNames held_{"istiod:x"};
  WordReader reader_;

 private:
  void apply(const OriginChange& change) {
    if (change.effect == Effect::Replace) objects_.clear();
    change.resources.for_each([&](std::string_view encoded, std::uint32_t) {
      const auto resource = StoredResource::of_encoded(encoded, 1, 0)->decode();
      const auto& entry = std::get<NameTableEntry>(resource);
      objects_[{entry.meta.name, hash_of(key_of(resource))}] =
          entry.meta.ns + "/" + entry.meta.name + " " + entry.ips.at(0).to_string();
    });
    if (change.effect != Effect::Retain) return;
    EXPECT_TRUE(std::ranges::is_sorted(change.retained));
    std::erase_if(objects_, [&](const auto& item) {
      return !std::ranges::binary_search(change.retained, item.first.second);
    });
  }

  std::map<std::pair<std::string, std::uint64_t>, std::string> objects_;
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
  ASSERT_EQ(difference.changes.size(), 2U);  // and the Retain that takes b.example away
  EXPECT_EQ(difference.changes[0].findings.size(), 3U);
  EXPECT_EQ(difference.changes[1].findings, difference.changes[0].findings);
  push({{"", {{"a.example", "10.0.0.1 n"}}}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
  EXPECT_EQ(held_.refused(), 0U);
  EXPECT_TRUE(held_.findings().empty());
}

TEST_F(HeldNamesTest, AFaultyNameOfTheFirstPushKeepsWhatAnEarlierRunLeft) {
  const auto first = push({{"", {{"a.example", "bad n"}, {"b.example", "10.0.0.2 n"}}}});
  const ResourceKey key{Kind::NameTableEntry, "", "n", "a.example"};
  EXPECT_EQ(first.changes.at(0).keep, std::vector<ResourceKey>{key});
  const auto second = push({{"", {{"a.example", "bad n"}}}});
  EXPECT_TRUE(std::ranges::binary_search(second.changes.at(1).retained, hash_of(key)));
}

TEST_F(HeldNamesTest, WhatIsNoNameInfoRefusesTheName) {
  push({{"", {{"a.example", ""}, {"b.example", "10.0.0.2 n"}}}});
  EXPECT_EQ(all(), "n/b.example 10.0.0.2");
  EXPECT_EQ(held_.refused(), 1U);
}

TEST_F(HeldNamesTest, TheLastOfTwoEqualHostsCounts) {
  push({{"", {{"a.example", "10.0.0.1 n"}, {"A.Example.", "10.0.0.2 n"}}}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.2");
  EXPECT_EQ(held_.size(), 1U);
}

TEST_F(HeldNamesTest, TablesWithNamesComeAndGoByThemselves) {
  push({{"t", {{"a.example", "10.0.0.1 n"}}, "1"}, {"u", {{"b.example", "10.0.0.2 n"}}, "1"}});
  push({{"u", {{"c.example", "10.0.0.3 n"}}, "2"}});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1; n/c.example 10.0.0.3");
  push({}, {"t", "unknown"});
  EXPECT_EQ(all(), "n/c.example 10.0.0.3");
  ASSERT_EQ(held_.versions().size(), 1U);
  EXPECT_EQ(held_.versions()[0].name + held_.versions()[0].version, "u2");
}

TEST_F(HeldNamesTest, AHostMovesFromOneTableToAnother) {
  push({{"t", {{"a.example", "10.0.0.1 n"}}}});
  push({{"u", {{"a.example", "10.0.0.1 n"}}}});
  push({}, {"t"});
  EXPECT_EQ(all(), "n/a.example 10.0.0.1");
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
  push({{"", {{"a.example", "10.0.0.1 n"}}}});
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i <= kMaxNames; ++i) hosts.push_back("h" + std::to_string(i));
  Push push;
  PushedTable& table = push.tables.emplace_back();
  for (const std::string& host : hosts) table.names.push_back({host, "10.0.0.1 n"});
  const auto refused = held_.take(push, reader_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "it makes more than 1000000 names");
  EXPECT_EQ(held_.size(), 1U);
}

TEST_F(HeldNamesTest, TheLimitCountsTheTablesThatAPushDoesNotMention) {
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < kMaxNames; ++i) hosts.push_back("h" + std::to_string(i));
  Push all;
  all.tables.push_back({"t", "", {}});
  for (const std::string& host : hosts) all.tables[0].names.push_back({host, "10.0.0.1 n"});
  EXPECT_TRUE(held_.take(all, reader_));
  Push more;
  more.tables.push_back({"u", "", {{"a.example", "10.0.0.1 n"}}});
  EXPECT_FALSE(held_.take(more, reader_));
  more.tables[0].name = "t";
  EXPECT_TRUE(held_.take(more, reader_));
  EXPECT_EQ(held_.size(), 1U);
}

TEST_F(HeldNamesTest, TheFindingsAreLimited) {
  NamedTable table;
  for (int i = 0; i < 3'000; ++i) table.names.emplace_back("a_" + std::to_string(i), "10.0.0.1 n");
  push({table});
  EXPECT_EQ(held_.refused(), 3'000U);
  EXPECT_EQ(held_.findings().size(), HeldNames::kMaxFaultyNames);
}

}  // namespace
}  // namespace meshdns::registry::istiod
