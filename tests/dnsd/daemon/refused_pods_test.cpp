// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class RefusedPodsTest : public testing::Test {
 protected:
  using Time = RefusedPods::Time;

  // A client with that description at that address; "" = the address identifies none.
  void add(const std::string& address, const std::string& description = "Pod shop/web") {
    auto* entry = new registry::ClientEntry;
    entry->address = *IpAddress::parse(address);
    if (!description.empty()) {
      auto* client = new registry::Client;
      client->identity.description = description;
      entry->client = Ref<const registry::Client>(client);
    }
    snapshot_.clients.put(
        std::hash<IpAddress>()(entry->address), Ref<const registry::ClientEntry>(entry),
        [&](const registry::ClientEntry& e) { return e.address == entry->address; });
    ++snapshot_.generation;
  }
  const std::string& look() {
    pods_.observe(snapshot_, allow_, now_ += RefusedPods::kPause);
    return pods_.trouble();
  }

  registry::Snapshot snapshot_;
  std::vector<IpPrefix> allow_ = ServerConfig().allow;
  RefusedPods pods_;
  Time now_;
};

TEST_F(RefusedPodsTest, ArePodsWithPublicAddresses) {
  add("10.244.1.7");
  add("fd00::7");
  add("192.0.2.1", "WorkloadEntry shop/vm");
  add("192.0.2.2", "");
  EXPECT_THAT(look(), IsEmpty());
  add("203.0.113.7");
  EXPECT_EQ(look(),
            "server.allow: refuses the queries of 1 Pod: Pod shop/web at 203.0.113.7; add "
            "203.0.113.0/24, or the range of the Pods");
}

TEST_F(RefusedPodsTest, AreNamedByARangeThatHasThemAll) {
  add("203.0.113.7");
  add("203.0.96.9");
  EXPECT_THAT(look(), StartsWith("server.allow: refuses the queries of 2 Pods; one of them: "));
  EXPECT_THAT(look(), HasSubstr("; add 203.0.96.0/19, "));
}

TEST_F(RefusedPodsTest, AreNamedByTheRangeOfOneWhenTheyHaveNothingInCommon) {
  add("2001:db8:1::7");
  add("2600:1f18::9");
  EXPECT_THAT(look(), testing::ContainsRegex("add (2001:db8:1::|2600:1f18::)/64, "));
}

TEST_F(RefusedPodsTest, AreNoMoreAfterAChangeOfTheConfiguration) {
  add("203.0.113.7");
  EXPECT_FALSE(look().empty());
  allow_.push_back(*IpPrefix::parse("203.0.112.0/20"));
  EXPECT_THAT(look(), IsEmpty());
}

}  // namespace
}  // namespace meshdns::dnsd
