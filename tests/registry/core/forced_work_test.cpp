// SPDX-License-Identifier: Apache-2.0
// The work that objects of one tenant can force: linear in their size, or bounded.
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace meshdns::registry
