// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/service_parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/registry/core/fixture.hpp"
#include "tests/registry/core/mesh_model.hpp"

namespace meshdns::registry {
namespace {

// Entry `i` of api.example.org in namespace shop.
ServiceEntry entry_of_host(std::size_t i, ExportTo export_to, std::uint16_t port = 80) {
  ServiceEntry entry;
  entry.meta.name = "e" + std::to_string(i);
  entry.meta.ns = "shop";
  entry.meta.creation_time = static_cast<std::int64_t>(i);
  entry.hosts = {"api.example.org"};
  entry.resolution = Resolution::Static;
  entry.addresses = {
      *IpPrefix::parse("10.0." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200))};
  entry.ports = {{port, 0, "p", "TCP"}};
  entry.export_to = std::move(export_to);
  return entry;
}

std::string address_of_entry(std::size_t i) {
  return entry_of_host(i, {}).addresses.front().address.to_string();
}

std::string numbered_namespace(std::size_t i) { return "n" + std::to_string(i); }

std::set<std::string> addresses_for(Registry& registry, std::string ns) {
  ClientIdentity identity;
  identity.ns = std::move(ns);
  const Ref<const Client> client = registry.client_of(identity);
  const auto snapshot = registry.current();
  const View view(*snapshot, *client);
  std::set<std::string> addresses;
  if (const Match match = view.lookup("api.example.org"))
    for (const auto& octets : view.addresses(*match.service).v4)
      addresses.insert(IpAddress::v4(octets).to_string());
  return addresses;
}

TEST(ServicePartsTest, AThousandEntriesWithAnotherExportToEachServeTheirNamespaces) {
  TestRegistry registry;
  std::vector<Resource> entries;
  for (std::size_t i = 0; i < 1000; ++i)
    entries.emplace_back(entry_of_host(i, {numbered_namespace(i)}));
  registry.add(entries);
  for (std::size_t i = 0; i < 1000; i += 37)
    EXPECT_EQ(addresses_for(registry.registry(), numbered_namespace(i)),
              std::set{address_of_entry(i)});
  EXPECT_EQ(addresses_for(registry.registry(), "stranger"), std::set<std::string>());
}

TEST(ServicePartsTest, AThousandEntriesWithAnotherPortEachServeTheListenersOfTheirPorts) {
  TestRegistry registry;
  std::vector<Resource> objects;
  for (std::size_t i = 0; i < 1000; ++i)
    objects.emplace_back(entry_of_host(i, {"*"}, static_cast<std::uint16_t>(1000 + i)));
  for (std::size_t i = 0; i < 1000; i += 37) {
    Sidecar sidecar;
    sidecar.meta.ns = numbered_namespace(i);
    sidecar.meta.name = "default";
    sidecar.egress = {{static_cast<std::uint16_t>(1000 + i), "TCP", {"*/*"}}};
    objects.emplace_back(sidecar);
  }
  registry.add(objects);
  for (std::size_t i = 0; i < 1000; i += 37)
    EXPECT_EQ(addresses_for(registry.registry(), numbered_namespace(i)),
              std::set{address_of_entry(i)});
  EXPECT_EQ(addresses_for(registry.registry(), "stranger").size(), 1000);
}

// The crowd has entries that exportTo hides, entries that the ports of listeners hide, and visible
// ones.
TEST(ServicePartsTest, ListenersOfPortsSeeOfManyPartsWhatTheModelSees) {
  std::mt19937_64 random(20261128);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const std::string namespaces[] = {"shop", "web", "bank", "dev"};
  for (int round = 0; round < 150; ++round) {
    model::World world;
    const std::size_t count = 2 + below(60);
    const std::size_t ports = 1 + below(8);
    for (std::size_t i = 0; i < count; ++i) {
      const ExportTo exports[] = {{"*"}, {"."}, {"nobody"}, {"web"}, {"web", "bank"}, {"dev", "."}};
      ServiceEntry& entry = world.entries.emplace_back(
          entry_of_host(i, exports[below(1 + below(std::size(exports)))]));
      if (below(4) == 0) entry.meta.ns = "bank";
      entry.ports.clear();
      for (std::size_t p = below(3) + 1; p-- > 0;)
        entry.ports.push_back(
            {static_cast<std::uint16_t>(1 + below(ports)), 0, "p" + std::to_string(p), "TCP"});
    }
    for (const std::string& ns : namespaces) {
      Sidecar& sidecar = world.sidecars.emplace_back();
      sidecar.meta.ns = ns;
      sidecar.meta.name = "default";
      const std::string hosts[] = {"*/*", "shop/*", "bank/*", "*/*.example.org", "~shop/*"};
      for (std::size_t n = 1 + below(3); n-- > 0;)
        sidecar.egress.push_back({static_cast<std::uint16_t>(below(10) == 0 ? 0 : 1 + below(ports)),
                                  "TCP",
                                  {hosts[below(std::size(hosts))], hosts[below(4)]}});
    }
    TestRegistry registry;
    std::vector<Resource> objects(world.entries.begin(), world.entries.end());
    objects.insert(objects.end(), world.sidecars.begin(), world.sidecars.end());
    registry.add(objects);
    const model::Mesh mesh(world);
    for (const std::string& ns : namespaces)
      EXPECT_EQ(addresses_for(registry.registry(), ns),
                mesh.ask({ns, {}}, "api.example.org").addresses)
          << ns << " in round " << round;
  }
}

// Half of the entries are public, and each of the others is for one namespace: every namespace sees
// another set of hundreds.  The memory for them is bounded; what is beyond it gets a part.
TEST(ServicePartsTest, KeepsABoundedNumberOfSetsAndGivesAwayNothingHiddenBeyondIt) {
  TestRegistry registry;
  std::vector<Resource> entries;
  for (std::size_t i = 0; i < 1000; ++i)
    entries.emplace_back(entry_of_host(i,
                                       i % 2 == 0 ? ExportTo{"*"} : ExportTo{numbered_namespace(i)},
                                       static_cast<std::uint16_t>(1000 + i)));
  registry.add(entries);
  std::set<std::string> for_all;
  for (std::size_t i = 0; i < 1000; i += 2) for_all.insert(address_of_entry(i));
  std::size_t whole = 0;
  for (std::size_t i = 1; i < 1000; i += 2) {
    const auto addresses = addresses_for(registry.registry(), numbered_namespace(i));
    std::set<std::string> visible = for_all;
    visible.insert(address_of_entry(i));
    EXPECT_FALSE(addresses.empty());
    EXPECT_TRUE(std::ranges::includes(visible, addresses));
    whole += addresses == visible;
  }
  EXPECT_GE(whole, 16);
  EXPECT_LE(whole, 64);
}

TEST(ServicePartsTest, EntriesBeyondTheLimitAreLeftOutWithANote) {
  TestRegistry registry;
  std::vector<Resource> entries;
  for (std::size_t i = 0; i < ServiceParts::kMaxParts + 10; ++i)
    entries.emplace_back(entry_of_host(i, {numbered_namespace(i)}));
  registry.add(entries);
  EXPECT_EQ(addresses_for(registry.registry(), numbered_namespace(ServiceParts::kMaxParts)),
            std::set<std::string>());
  const HostEntry* const host = registry.registry().current()->find_host("api.example.org");
  ASSERT_NE(host, nullptr);
  ASSERT_EQ(host->records().size(), 1);
  EXPECT_EQ(host->records()[0]->details->notes.back().substr(0, 18), "10 entries ignored");
}

TEST(ServicePartsTest, AllThreadsGetTheSameServiceForASet) {
  TestRegistry registry;
  std::vector<Resource> entries;
  for (std::size_t i = 0; i < 8; ++i)
    entries.emplace_back(entry_of_host(i, {"*"}, static_cast<std::uint16_t>(1000 + i)));
  for (int round = 0; round < 20; ++round) {
    registry.load("{apiVersion: v1, kind: Namespace, metadata: {name: n" + std::to_string(round) +
                  "}}");
    entries[0] = entry_of_host(0, {"*"}, static_cast<std::uint16_t>(2000 + round));
    registry.add(entries);
    const auto snapshot = registry.registry().current();
    const ServiceParts* const parts = snapshot->find_host("api.example.org")->records()[0]->parts();
    ASSERT_NE(parts, nullptr);
    std::vector<std::vector<const ServiceRecord*>> found(4);
    std::vector<std::thread> threads;
    for (auto& of_thread : found)
      threads.emplace_back([&of_thread, parts] {
        for (unsigned set = 1; set < 256; ++set)
          of_thread.push_back(&parts->merged(ServiceParts::Set(set)));
      });
    for (auto& thread : threads) thread.join();
    for (const auto& of_thread : found) EXPECT_EQ(of_thread, found[0]);
  }
}

// Handlers hear of a change that shows only to some clients.
TEST(ServicePartsTest, AChangeOfOnePartIsAnEvent) {
  TestRegistry registry;
  int events = 0;
  registry.registry().controller().append_service_handler(
      [&](Event, const RecordChange&, const Snapshot&) { ++events; });
  registry.add({entry_of_host(0, {"*"}), entry_of_host(1, {"web"})});
  EXPECT_EQ(events, 1);
  // The addresses change places, so that their union stays.
  ServiceEntry first = entry_of_host(0, {"*"});
  ServiceEntry second = entry_of_host(1, {"web"});
  std::swap(first.addresses, second.addresses);
  registry.add({first, second});
  EXPECT_EQ(events, 2);
  registry.add({first, second});
  EXPECT_EQ(events, 2);
}

TEST(StatusAddressTest, TheOldestEntryKeepsAnAddressAndTheNextOneFollows) {
  TestRegistry registry;
  const auto entry = [](std::size_t i, const std::string& host) {
    ServiceEntry result = entry_of_host(i, {"*"});
    result.hosts = {host};
    result.addresses.clear();
    result.status_addresses = {{host, *IpAddress::parse("240.240.0.1")}};
    return result;
  };
  registry.add({entry(2, "b.example.org"), entry(1, "a.example.org"), entry(3, "c.example.org")});
  EXPECT_EQ(registry.ask("a.example.org"), "exact vips 240.240.0.1");
  EXPECT_EQ(registry.ask("b.example.org"), "exact forward");
  EXPECT_EQ(registry.registry().contested_addresses().size(), 2);
  registry.remove({Kind::ServiceEntry, "", "shop", "e1"});
  EXPECT_EQ(registry.ask("b.example.org"), "exact vips 240.240.0.1");
  EXPECT_EQ(registry.ask("c.example.org"), "exact forward");
  registry.remove({Kind::ServiceEntry, "", "shop", "e2"});
  EXPECT_EQ(registry.ask("c.example.org"), "exact vips 240.240.0.1");
  EXPECT_TRUE(registry.registry().contested_addresses().empty());
}

// The entries of one host share its VIP.
TEST(StatusAddressTest, EntriesOfOneHostDoNotContestAnAddress) {
  TestRegistry registry;
  ServiceEntry first = entry_of_host(1, {"*"});
  ServiceEntry second = entry_of_host(2, {"web"});
  for (ServiceEntry* entry : {&first, &second}) {
    entry->addresses.clear();
    entry->status_addresses = {{"api.example.org", *IpAddress::parse("240.240.0.1")}};
  }
  registry.add({first, second});
  EXPECT_EQ(addresses_for(registry.registry(), "web"), std::set<std::string>{"240.240.0.1"});
  EXPECT_EQ(addresses_for(registry.registry(), "other"), std::set<std::string>{"240.240.0.1"});
  EXPECT_TRUE(registry.registry().contested_addresses().empty());
}

}  // namespace
}  // namespace meshdns::registry
