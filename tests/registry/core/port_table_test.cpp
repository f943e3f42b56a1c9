// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/service_record.hpp"

#include <gtest/gtest.h>

#include <string>

namespace meshdns::registry {
namespace {

std::vector<ServicePort> http(std::uint16_t number) { return {{number, number, "http", "HTTP"}}; }

TEST(PortTableTest, SharesEqualLists) {
  PortTable table;
  const auto a = table.intern(http(80));
  EXPECT_EQ(a, table.intern(http(80)));
  EXPECT_EQ(a->ports, http(80));
  auto other = http(80);
  other.front().name = "http2";
  for (const auto& different : {http(8080), other, std::vector<ServicePort>{}})
    EXPECT_NE(a, table.intern(different));
  EXPECT_EQ(table.size(), 4U);
}

TEST(PortTableTest, ForgetsUnusedLists) {
  PortTable table;
  const auto kept = table.intern(http(80));
  for (std::uint16_t number = 1; number < 20'000; ++number)
    table.intern({{number, 0, std::to_string(number), "TCP"}});
  EXPECT_LE(table.size(), 1025U);
  EXPECT_EQ(table.intern(http(80)), kept);
}

}  // namespace
}  // namespace meshdns::registry
