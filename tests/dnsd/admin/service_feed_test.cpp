// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/registry_streams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::dnsd {
namespace {

constexpr ServicePage kServices{put_service, put_service_id};

std::string service(int number, const std::string& ns = "shop", int address = 0) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: {name: s" + std::to_string(number) +
         ", namespace: " + ns + "}\nspec: {clusterIP: 10.96." + std::to_string(number / 250) + "." +
         std::to_string(number % 250 + 1 + address) + ", ports: [{name: http, port: 80}]}\n";
}

std::vector<std::string> hosts_in(const HostWalk& whole) {
  HostWalk walk = whole;
  std::vector<std::string> hosts;
  while (!walk.is_done())
    if (const auto* entry = walk.step()) hosts.emplace_back(entry->host());
  return hosts;
}

TEST(HostWalkTest, VisitsAllHostsInOrder) {
  registry::TestRegistry registry;
  std::string text;
  for (int i = 0; i < 5'000; ++i) text += service(i);
  registry.load(text);
  const auto hosts = hosts_in(HostWalk(registry.registry().current(), ""));
  EXPECT_EQ(hosts.size(), 5'000U);
  EXPECT_TRUE(std::ranges::is_sorted(hosts));
}

TEST(HostWalkTest, VisitsOneHostOrNone) {
  registry::TestRegistry registry;
  registry.load(service(1) + service(2));
  const auto snapshot = registry.registry().current();
  EXPECT_EQ(hosts_in(HostWalk(snapshot, "s1.shop.svc.cluster.local")).size(), 1U);
  EXPECT_TRUE(hosts_in(HostWalk(snapshot, "unknown.example.org")).empty());
  EXPECT_TRUE(hosts_in(HostWalk(snapshot, "*.example.org")).empty());
}

class ServiceWatchTest : public testing::Test {
 protected:
  ServiceWatchTest() {
    handler_ = registry_.registry().controller().attach(
        [this](const registry::Changes& changes, const registry::Snapshot&) { note(changes); });
  }
  void note(const registry::Changes& changes) {
    for (const auto& change : changes.records) {
      auto pending = std::make_shared<PendingChange>();
      pending->host = change.host;
      pending->ns = change.ns();
      if (change.before)
        for (const auto* known : services_of(*change.before))
          pending->known.push_back(id_of(change.host, *known));
      if (watch_) has_room_ &= watch_->note(pending);
    }
  }
  void begin(ServiceFilter filter = {}) {
    watch_ = std::make_unique<ServiceWatch>(registry_.registry(), kServices, std::move(filter));
  }
  // "ADDED s1", "BOOKMARK", ... of each line.
  std::vector<std::string> take() {
    std::string text;
    while (watch_->has_work()) watch_->step(text);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      at += line.size() + 1;
      const std::string type = line.substr(9, line.find('"', 9) - 9);
      const auto host = line.find("\"hostname\":\"");
      lines.push_back(host == std::string::npos
                          ? type
                          : type + " " + line.substr(host + 12, line.find('.', host) - host - 12));
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  registry::TestRegistry registry_;
  std::shared_ptr<const registry::Controller::Handler> handler_;
  std::unique_ptr<ServiceWatch> watch_;
  bool has_room_ = true;
};

TEST_F(ServiceWatchTest, TellsTheStateThenChanges) {
  registry_.load(service(1));
  begin();
  EXPECT_EQ(take(), (Lines{"ADDED s1", "BOOKMARK"}));
  registry_.load(service(1, "shop", 1));
  EXPECT_EQ(take(), Lines{"MODIFIED s1"});
  registry_.load(service(2));
  EXPECT_EQ(take(), Lines{"ADDED s2"});
  registry_.remove({registry::Kind::Service, "", "shop", "s1"});
  EXPECT_EQ(take(), Lines{"DELETED s1"});
}

TEST_F(ServiceWatchTest, ChangesDuringTheListComeAfterIt) {
  registry_.load(service(1) + service(2));
  begin();
  registry_.load(service(3));
  registry_.remove({registry::Kind::Service, "", "shop", "s1"});
  EXPECT_EQ(take(), (Lines{"ADDED s1", "ADDED s2", "BOOKMARK", "ADDED s3", "DELETED s1"}));
}

TEST_F(ServiceWatchTest, AServiceThatComesAndGoesUnseenIsNoChange) {
  begin();
  EXPECT_EQ(take(), Lines{"BOOKMARK"});
  registry_.load(service(1));
  registry_.load(service(1, "shop", 1));
  registry_.remove({registry::Kind::Service, "", "shop", "s1"});
  EXPECT_EQ(take(), Lines{});
  registry_.load(service(1));
  registry_.load(service(1, "shop", 1));
  EXPECT_EQ(take(), Lines{"ADDED s1"});
}

TEST_F(ServiceWatchTest, LeavesOutOtherNamespaces) {
  registry_.load(service(1) + service(2, "office"));
  begin({"", "office"});
  EXPECT_EQ(take(), (Lines{"ADDED s2", "BOOKMARK"}));
  registry_.load(service(3) + service(4, "office"));
  EXPECT_EQ(take(), Lines{"ADDED s4"});
}

TEST_F(ServiceWatchTest, HoldsABoundedNumberOfChanges) {
  begin();
  const auto change = [](std::size_t number) {
    auto pending = std::make_shared<PendingChange>();
    pending->host = std::to_string(number) + ".example.org";
    return pending;
  };
  for (std::size_t i = 0; i < ServiceWatch::kMaxPending; ++i) ASSERT_TRUE(watch_->note(change(i)));
  EXPECT_TRUE(watch_->note(change(0)));  // it waits already
  EXPECT_FALSE(watch_->note(change(ServiceWatch::kMaxPending)));
}

}  // namespace
}  // namespace meshdns::dnsd
