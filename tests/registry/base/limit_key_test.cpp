// SPDX-License-Identifier: Apache-2.0
#include "registry/base/ip_address.hpp"

#include <gtest/gtest.h>

#include <string>

namespace meshdns {
namespace {

std::string key_of(const char* address) {
  return limit_key_of(*IpAddress::parse(address)).to_string();
}

TEST(LimitKeyTest, IsTheAddressOfIPv4) {
  EXPECT_EQ(key_of("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(key_of("::ffff:192.0.2.7"), "192.0.2.7");
}

TEST(LimitKeyTest, IsTheNetworkOf64BitsOfIPv6) {
  EXPECT_EQ(key_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(key_of("2001:db8:1:2::"), "2001:db8:1:2::");
  EXPECT_EQ(key_of("2001:db8:1:2:ffff:ffff:ffff:ffff"), "2001:db8:1:2::");
  EXPECT_EQ(key_of("2001:db8:1:3::1"), "2001:db8:1:3::");
}

// 64:ff9b::/96 and the like are IPv6, whatever address they hold.
TEST(LimitKeyTest, DistinguishesIPv6FromTheContainedIPv4) {
  EXPECT_EQ(key_of("::192.0.2.7"), "::");
  EXPECT_EQ(key_of("64:ff9b::192.0.2.7"), "64:ff9b::");
}

}  // namespace
}  // namespace meshdns
