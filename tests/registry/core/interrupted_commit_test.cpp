// SPDX-License-Identifier: Apache-2.0
// Commits that are given up because the process is to end.
#include <gtest/gtest.h>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

// A commit of so many hosts of its own.
Changes commit_entries(Registry& registry, int count) {
  Transaction transaction;
  for (int i = 0; i < count; ++i) {
    ServiceEntry entry;
    entry.meta.name = "e" + std::to_string(i);
    entry.meta.ns = "shop";
    entry.hosts = {"h" + std::to_string(i) + ".example.org"};
    entry.addresses = {*IpPrefix::parse("192.0.2.1")};
    transaction.upsert(entry, "test.yaml", 1);
  }
  return registry.commit(std::move(transaction));
}

TEST(InterruptedCommitTest, PublishesNothingAndAsksOnlyNowAndThen) {
  for (const int allowed : {0, 1, 5, 8}) {
    Registry registry{MeshSettings{}};
    commit_entries(registry, 10);
    const auto before = registry.current();
    int published = 0;
    registry.set_publish([&](const auto&) { ++published; });
    int asked = 0;
    registry.set_interrupt([&] { return ++asked > allowed; });
    EXPECT_TRUE(commit_entries(registry, 5'000).interrupted) << allowed;
    EXPECT_EQ(asked, allowed + 1) << "twice 5,000 steps are nine questions";
    EXPECT_EQ(registry.current(), before);
    EXPECT_TRUE(commit_entries(registry, 1).interrupted) << "what is in pieces stays so";
    registry.set_serial(7);
    EXPECT_TRUE(registry.set_settings({}).interrupted);
    EXPECT_EQ(registry.current(), before);
    EXPECT_EQ(published, 0);
  }
}

TEST(InterruptedCommitTest, ALargeCommitThatNobodyInterruptsIsWhole) {
  Registry registry{MeshSettings{}};
  int asked = 0;
  registry.set_interrupt([&] {
    ++asked;
    return false;
  });
  const Changes summary = commit_entries(registry, 5'000);
  EXPECT_FALSE(summary.interrupted);
  EXPECT_EQ(summary.changed_hosts, 5'000U);
  EXPECT_EQ(asked, 9);
  EXPECT_NE(registry.current()->find_host("h4999.example.org"), nullptr);
}

}  // namespace
}  // namespace meshdns::registry
