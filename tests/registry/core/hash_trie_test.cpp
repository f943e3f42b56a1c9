// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/hash_trie.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace meshdns::registry {
namespace {

struct Item final : RefCounted {
  explicit Item(std::uint64_t h, int v) : hash(h), value(v) {}
  std::uint64_t hash;
  int value;
};

int value_at(const HashTrie<Item>& trie, std::uint64_t hash) {
  const Item* item = trie.find(hash, [&](const Item& i) { return i.hash == hash; });
  return item == nullptr ? -1 : item->value;
}

// `step`: the distance of hashes; 8 puts all entries of a forked leaf into one of its parts.
class HashTrieTest : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Steps, HashTrieTest, testing::Values(1, 8));

TEST_P(HashTrieTest, BehavesAsAMapAndKeepsEveryOldVersion) {
  std::mt19937_64 random(3);
  HashTrie<Item> trie;
  std::map<std::uint64_t, int> model;
  std::vector<std::pair<HashTrie<Item>, std::map<std::uint64_t, int>>> versions;
  for (int i = 0; i < 20000; ++i) {
    // Few distinct upper bits, so that leaves fill, fork and shrink.
    const std::uint64_t hash = (random() % 4) << 52 | random() % 2000 * GetParam();
    const auto same = [&](const Item& item) { return item.hash == hash; };
    if (random() % 3 == 0) {
      EXPECT_EQ(trie.erase(hash, same), model.erase(hash) == 1);
    } else {
      trie.put(hash, Ref<const Item>(new Item(hash, i)), same);
      model[hash] = i;
    }
    EXPECT_EQ(trie.size(), model.size());
    if (i % 1000 == 0) versions.emplace_back(trie, model);
  }
  versions.emplace_back(trie, model);
  for (const auto& [old, expected] : versions) {
    std::size_t count = 0;
    old.for_each([&](const Item&) { ++count; });
    EXPECT_EQ(count, expected.size());
    for (const auto& [hash, value] : expected) ASSERT_EQ(value_at(old, hash), value);
  }
}

TEST_P(HashTrieTest, TellsTheDifferenceOfTwoVersions) {
  std::mt19937_64 random(5);
  HashTrie<Item> trie;
  for (int round = 0; round < 200; ++round) {
    const HashTrie<Item> before = trie;
    for (std::uint64_t changes = random() % 30; changes > 0; --changes) {
      const std::uint64_t hash = (random() % 4) << 52 | random() % 2000 * GetParam();
      const auto same = [&](const Item& item) { return item.hash == hash; };
      if (random() % 3 == 0)
        trie.erase(hash, same);
      else
        trie.put(hash, Ref<const Item>(new Item(hash, round)), same);
    }
    std::map<std::uint64_t, int> model;
    before.for_each([&](const Item& item) { model[item.hash] = item.value; });
    // The entries of one place come together, and none is told twice.
    std::vector<const Item*> gone;
    std::vector<const Item*> came;
    HashTrie<Item>::compare(
        before, trie, [&](const Item& item) { gone.push_back(&item); },
        [&](const Item& item) { came.push_back(&item); },
        [&] {
          for (const Item* item : gone)
            EXPECT_EQ(model.erase(item->hash), 1U) << "gone twice, or never there";
          for (const Item* item : came)
            EXPECT_TRUE(model.emplace(item->hash, item->value).second) << "came twice";
          gone.clear();
          came.clear();
        });
    std::map<std::uint64_t, int> expected;
    trie.for_each([&](const Item& item) { expected[item.hash] = item.value; });
    ASSERT_EQ(model, expected);
    HashTrie<Item>::compare(
        trie, HashTrie<Item>(trie), [](const Item&) { ADD_FAILURE(); },
        [](const Item&) { ADD_FAILURE(); }, [] { ADD_FAILURE(); });
  }
}

}  // namespace
}  // namespace meshdns::registry
