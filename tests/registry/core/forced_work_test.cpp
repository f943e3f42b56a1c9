// SPDX-License-Identifier: Apache-2.0
// The work that objects of one tenant can force: linear in their size, or bounded.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "registry/traffic/traffic_match.hpp"
#include "tests/fewer.hpp"
#include "tests/registry/core/cost.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

// Between linear and quadratic growth.
constexpr double kLinear = 24;

WorkloadEntry workload_at(std::size_t number, std::string address) {
  WorkloadEntry workload;
  workload.meta.name = "w" + std::to_string(number);
  workload.meta.ns = "shop";
  workload.spec.address = std::move(address);
  return workload;
}

TEST(ForcedWorkTest, WorkloadsOfOneAddressCostLinearTime) {
  const auto work = [](std::size_t count) {
    std::vector<Resource> workloads;
    for (std::size_t i = 0; i < count; ++i) workloads.push_back(workload_at(i, "10.0.0.1"));
    TestRegistry r;
    r.add(workloads);
    const PodEntry* const entry = r.snapshot().find_pod(*IpAddress::parse("10.0.0.1"));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->pods.size(), count);
  };
  EXPECT_LT(growth_by_eight(work, 16'000), kLinear);
}

std::string numbered_host(std::size_t number) {
  return "h" + std::to_string(number) + ".example.org";
}

IpAddress address_of_number(std::size_t number) {
  return IpAddress::v4({10, static_cast<std::uint8_t>(number >> 16),
                        static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)});
}

// Each host has four addresses of the entry's status.
ServiceEntry entry_of_hosts(std::string name, std::string ns, std::size_t hosts) {
  ServiceEntry entry;
  entry.meta.name = std::move(name);
  entry.meta.ns = std::move(ns);
  entry.resolution = Resolution::Static;
  entry.ports = {{.number = 80, .name = "http", .protocol = "HTTP"}};
  entry.auto_allocate = true;
  for (std::size_t i = 0; i < hosts; ++i) entry.hosts.push_back(numbered_host(i));
  for (std::size_t i = 0; i < 4 * hosts; ++i)
    entry.status_addresses.push_back({numbered_host(i / 4), address_of_number(i)});
  return entry;
}

TEST(ForcedWorkTest, HostsOfOneEntryCostLinearTime) {
  const auto work = [](std::size_t hosts) {
    TestRegistry r;
    r.add({entry_of_hosts("e", "shop", hosts)});
    EXPECT_EQ(r.ask(numbered_host(1)), "exact vips 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7");
  };
  EXPECT_LT(growth_by_eight(work, test::fewer(2'048)), kLinear);
}

TEST(ForcedWorkTest, StatusAddressesOfTwoEntriesCostLinearTime) {
  const auto shared = [](std::size_t hosts) {
    TestRegistry r;
    r.add({entry_of_hosts("a", "shop", hosts), entry_of_hosts("b", "shop", hosts)});
    EXPECT_TRUE(r.registry().contested_addresses().empty());
  };
  const auto contested = [](std::size_t hosts) {
    TestRegistry r;
    r.add({entry_of_hosts("a", "shop", hosts), entry_of_hosts("b", "web", hosts)});
    EXPECT_FALSE(r.registry().contested_addresses().empty());
  };
  EXPECT_LT(growth_by_eight(shared, test::fewer(2'048)), kLinear);
  EXPECT_LT(growth_by_eight(contested, test::fewer(2'048)), kLinear);
}

// The processor time of a change of one of 512 workloads that so many entries select.
double milliseconds_of_change(std::size_t entries) {
  std::vector<Resource> resources;
  for (std::size_t i = 0; i < entries; ++i) {
    ServiceEntry entry = entry_of_hosts("e" + std::to_string(i), "shop", 0);
    entry.hosts = {numbered_host(i)};
    entry.workload_selector = Labels{{"app", "web"}};
    resources.emplace_back(entry);
  }
  const auto labelled = [](WorkloadEntry workload) {
    workload.spec.labels = {{"app", "web"}};
    return workload;
  };
  for (std::size_t i = 0; i < 512; ++i)
    resources.emplace_back(labelled(workload_at(i, address_of_number(i).to_string())));
  TestRegistry r;
  r.add(resources);
  const double taken = milliseconds_of([&] { r.add({labelled(workload_at(0, "192.0.2.1"))}); });
  const std::string answer = r.ask(numbered_host(entries - 1));
  EXPECT_NE(answer.find(" 192.0.2.1"), std::string::npos) << answer;
  EXPECT_EQ(answer.find(" 10.0.0.0"), std::string::npos) << answer;
  return taken;
}

TEST(ForcedWorkTest, EntriesWithOneSelectorShareTheWorkOfAChangedWorkload) {
  const double one = milliseconds_of_change(1);
  const double many = milliseconds_of_change(512);
  std::cout << "[ COST     ] " << one << " ms for 1, " << many << " ms for 512\n";
  EXPECT_LT(many / one, 200) << "512 entries each for itself take 512 times as long";
}

TEST(ForcedWorkTest, TheEndpointsOfAConnectionCostLinearTime) {
  const auto work = [](std::size_t count) {
    ServiceEntry entry = entry_of_hosts("e", "shop", 1);
    entry.addresses = {*IpPrefix::parse("192.0.2.1")};
    for (std::size_t i = 0; i < count; ++i)
      entry.endpoints.emplace_back().address = address_of_number(i % (count / 2)).to_string();
    TestRegistry r;
    r.add({entry});
    const View view = r.view();
    const auto match = match_traffic(view, {*IpAddress::parse("192.0.2.1"), 80, "", ""});
    EXPECT_EQ(match.endpoints.size(), count / 2) << "each once";
  };
  EXPECT_LT(growth_by_eight(work, test::fewer(64'000)), 16);
}

}  // namespace
}  // namespace meshdns::registry
