// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/registry/source/fake_registry.hpp"

namespace meshdns::registry::istiod {
namespace {

using Effect = OriginChange::Effect;

// Contents in these tests: "HOST" is a service of namespace shop, "HOST IP" one with that address,
// "=SERVICE..." a Pod of these services.  "!" is no message.  "HOST*" has many alternative names.
class ShortReader final : public MessageReader {
 public:
  const NameInfo* read_name(std::string_view) override { return nullptr; }
  std::optional<ApiAddress> read_address(std::string_view content) override {
    ++reads;
    if (content.starts_with("!")) return std::nullopt;
    if (content.starts_with("=")) return pod(content.substr(1));
    ApiService service;
    service.ns = "shop";
    service.hostname = content.substr(0, content.find_first_of(" *"));
    if (content.ends_with('*')) service.subject_alt_names.assign(256, "spiffe://a");
    if (content.find(' ') != std::string_view::npos)
      service.addresses = {{"", std::string(content.substr(content.find(' ') + 1)), {}}};
    return service;
  }
  int reads = 0;

 private:
  static ApiWorkload pod(std::string_view services) {
    ApiWorkload workload;
    workload.uid = "c//Pod/shop/p";
    workload.addresses = {"1234"};
    for (; !services.empty(); services.remove_prefix(1))
      workload.services.emplace_back(
          "shop/" + std::string(1, services.front()) + ".shop.svc.cluster.local",
          std::vector<ApiPort>());
    return workload;
  }
};

class HeldWorkloadsTest : public ::testing::Test {
 protected:
  struct Pushed {
    std::string name;
    std::string content;
    std::string version = "1";
  };

  HeldWorkloads::Difference push(const std::vector<Pushed>& addresses,
                                 std::vector<std::string> removed = {}) {
    Push push;
    push.removed = std::move(removed);
    for (const Pushed& one : addresses)
      push.addresses.push_back({one.name, one.version, one.content});
    auto difference = *(limited_ ? *limited_ : held_).take(push, reader_);
    registry_.apply(difference.changes);
    return difference;
  }

  // The registry has this ServiceEntry of an earlier run.
  void hold(const std::string& name) {
    const ResourceKey key{Kind::ServiceEntry, "", "shop", name};
    registry_.hold("istiod", key, key.to_string());
  }

  std::string all() const { return registry_.print(", "); }
  const std::vector<Finding>& findings() { return registry_.findings["istiod"]; }

  void held_limits(std::size_t names, std::size_t parts) {
    limited_.emplace("istiod", WorkloadRules(), HeldLimits{names, parts});
  }

  ShortReader reader_;
  HeldWorkloads held_{"istiod", {}};
  std::optional<HeldWorkloads> limited_;  // held_limits(): instead of held_
  FakeRegistry registry_;
};

TEST_F(HeldWorkloadsTest, TheFirstPushReplacesWhatAnEarlierRunHad) {
  hold("old.example");
  const auto difference = push({{"shop/a.example", "a.example"}});
  EXPECT_EQ(difference.changes.at(0).effect, Effect::Replace);
  EXPECT_EQ(all(), "ServiceEntry shop/a.example");
  EXPECT_EQ(push({{"shop/b.example", "b.example"}}).changes.at(0).effect, Effect::Update);
  EXPECT_EQ(all(), "ServiceEntry shop/a.example, ServiceEntry shop/b.example");
  EXPECT_EQ(held_.size(), 2U);
}

TEST_F(HeldWorkloadsTest, APushWithoutNewsChangesNothingAndReadsNothing) {
  push({{"shop/a.example", "a.example"}});
  const auto difference = push({{"shop/a.example", "a.example", "2"}});
  EXPECT_TRUE(difference.changes.empty());
  EXPECT_EQ(difference.changed, 0U);
  EXPECT_EQ(reader_.reads, 1);
  EXPECT_EQ(held_.begin_stream().at(0).version, "2");
}

TEST_F(HeldWorkloadsTest, AWorkloadLeavesTheSlicesOfServicesThatItServesNoMore) {
  push({{"c//Pod/shop/p", "=ab"}});
  EXPECT_EQ(registry_.texts().size(), 3U);
  push({{"c//Pod/shop/p", "=b"}});
  EXPECT_EQ(all(), "EndpointSlice shop/b/c//Pod/shop/p, Pod c:shop/p");
  push({}, {"c//Pod/shop/p"});
  EXPECT_EQ(all(), "");
  EXPECT_EQ(held_.size(), 0U);
}

TEST_F(HeldWorkloadsTest, ARemovalOfWhatIsNotHeldChangesNothing) {
  push({{"shop/a.example", "a.example"}});
  EXPECT_TRUE(push({}, {"shop/b.example"}).changes.empty());
  EXPECT_EQ(all(), "ServiceEntry shop/a.example");
}

TEST_F(HeldWorkloadsTest, TheLastOfTwoResourcesCountsAndItsRemovalAboveAll) {
  push({{"c//Pod/shop/p", "=a"}, {"c//Pod/shop/p", "="}, {"c//Pod/shop/p", "=a"}});
  EXPECT_EQ(all(), "EndpointSlice shop/a/c//Pod/shop/p, Pod c:shop/p");
  push({{"c//Pod/shop/p", "=b"}}, {"c//Pod/shop/p"});
  EXPECT_EQ(all(), "");
}

TEST_F(HeldWorkloadsTest, AFaultyResourceKeepsItsEarlierVersion) {
  push({{"shop/a.example", "a.example"}});
  const auto difference =
      push({{"shop/a.example", "a.example 123"}, {"shop/b.example", "b.example"}, {"shop/c", "!"}});
  EXPECT_EQ(difference.refusal,
            "shop/a.example: addresses[0]: has 3 octets; an IP address has 4 or 16; 1 more "
            "resource is refused");
  EXPECT_EQ(all(), "ServiceEntry shop/a.example, ServiceEntry shop/b.example");
  EXPECT_EQ(held_.refused(), 2U);
  ASSERT_EQ(findings().size(), 2U);
  EXPECT_EQ(findings()[1].object + ": " + findings()[1].message, "shop/c: is no Address message");
  EXPECT_EQ(push({{"shop/a.example", "a.example"}}).refusal, "");
  push({}, {"shop/c"});
  EXPECT_EQ(held_.refused(), 0U);
  EXPECT_TRUE(findings().empty());
}

TEST_F(HeldWorkloadsTest, AFaultyResourceKeepsWhatAnEarlierRunHad) {
  hold("a.example");
  hold("b.example");
  push({{"shop/a.example", "!"}});
  EXPECT_EQ(all(), "ServiceEntry shop/a.example");
}

TEST_F(HeldWorkloadsTest, TheNextStreamHasWhatIsHeld) {
  push({{"shop/a.example", "a.example", "7"}, {"shop/b.example", "!"}});
  push({{"shop/a.example", "!", "8"}});
  const auto held = held_.begin_stream();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].name + held[0].version, "shop/a.example7");
  // istiod sends the other one again if it is still there.
  EXPECT_EQ(held_.refused(), 1U);
}

TEST_F(HeldWorkloadsTest, TheNextStreamBeginsAnewWithMoreThanARequestHolds) {
  const std::string version(kMaxVersionOctets / 2, 'v');
  push({{"shop/a.example", "a.example", version}, {"shop/b.example", "b.example", version}});
  EXPECT_TRUE(held_.begin_stream().empty());
  push({{"shop/b.example", "b.example"}, {"shop/c.example", "c.example"}});
  EXPECT_EQ(all(), "ServiceEntry shop/b.example, ServiceEntry shop/c.example");
  push({{"shop/d.example", "d.example"}});
  EXPECT_EQ(registry_.texts().size(), 3U);
  EXPECT_EQ(held_.begin_stream().size(), 3U);
}

TEST_F(HeldWorkloadsTest, APushWithoutAnythingTakesNothingAway) {
  hold("old.example");
  EXPECT_TRUE(push({}).changes.empty());
  push({{"shop/a.example", "a.example"}});
  EXPECT_TRUE(push({}).changes.empty());
  EXPECT_EQ(all(), "ServiceEntry shop/a.example");
}

// A hostile istiod could add to the memory with every push.
TEST_F(HeldWorkloadsTest, LimitsTheParts) {
  held_limits(1'000, 512);
  const Pushed a = {"shop/a.example", "a.example*"};
  const Pushed b = {"shop/b.example", "b.example*"};
  const Pushed c = {"shop/c.example", "c.example*"};
  EXPECT_EQ(push({a, b}).refusal, "");
  EXPECT_EQ(push({c}).refusal, "shop/c.example: there are more than 512 addresses and ports");
  EXPECT_EQ(push({{b.name, "b.example"}, c}).refusal, "");
  EXPECT_EQ(push({b}).refusal, "shop/b.example: there are more than 512 addresses and ports");
  push({}, {a.name});
  EXPECT_EQ(push({b}).refusal, "");
}

TEST_F(HeldWorkloadsTest, LimitsTheObjects) {
  held_limits(3, kMaxParts);
  EXPECT_EQ(push({{"c//Pod/shop/p", "=ab"}}).refusal, "");
  EXPECT_EQ(push({{"shop/a.example", "a.example"}}).refusal,
            "shop/a.example: there are more than 3 objects");
  push({{"c//Pod/shop/p", "=b"}});
  EXPECT_EQ(push({{"shop/a.example", "a.example"}}).refusal, "");
}

TEST_F(HeldWorkloadsTest, DoesNotReadAHugeResource) {
  const std::string huge(HeldWorkloads::kMaxResourceOctets + 1, 'x');
  EXPECT_EQ(push({{"shop/a.example", huge}}).refusal, "shop/a.example: has more than 1 MiB");
  EXPECT_EQ(reader_.reads, 0);
}

TEST_F(HeldWorkloadsTest, LimitsTheResourcesThatWereNeverGood) {
  std::vector<Pushed> all;
  for (std::size_t i = 0; i < HeldWorkloads::kMaxNeverGood + 5; ++i)
    all.push_back({"shop/h" + std::to_string(i) + ".example", "!"});
  push(all);
  EXPECT_EQ(held_.size(), HeldWorkloads::kMaxNeverGood);
  push({{all[0].name, "h0.example"}, all.back()});
  EXPECT_EQ(held_.size(), HeldWorkloads::kMaxNeverGood + 1);
  push({}, {all[0].name, all[1].name});
  push({all[2], all[1], {"shop/x.example", "!"}});
  EXPECT_EQ(held_.size(), HeldWorkloads::kMaxNeverGood);
}

TEST_F(HeldWorkloadsTest, LimitsTheFindings) {
  std::vector<Pushed> all;
  for (std::size_t i = 0; i < HeldWorkloads::kMaxFaulty + 5; ++i)
    all.push_back({"shop/" + std::to_string(i), "!"});
  push(all);
  EXPECT_EQ(held_.refused(), HeldWorkloads::kMaxFaulty + 5);
  EXPECT_EQ(findings().size(), HeldWorkloads::kMaxFaulty);
}

}  // namespace
}  // namespace meshdns::registry::istiod
