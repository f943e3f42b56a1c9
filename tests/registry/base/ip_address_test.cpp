// SPDX-License-Identifier: Apache-2.0
#include "registry/base/ip_address.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <unordered_set>

namespace meshdns {
namespace {

IpAddress ip(std::string_view text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress());
}

IpPrefix prefix(std::string_view text) {
  const auto value = IpPrefix::parse(text);
  EXPECT_TRUE(value) << text;
  return value.value_or(IpPrefix());
}

TEST(IpAddressTest, PrintsInCanonicalForm) {
  EXPECT_EQ(ip("192.0.2.1").to_string(), "192.0.2.1");
  EXPECT_EQ(ip("2001:DB8:0:0:0:0:0:1").to_string(), "2001:db8::1");
  EXPECT_EQ(ip("::").to_string(), "::");
  EXPECT_EQ(ip("::ffff:192.0.2.1").to_string(), "192.0.2.1");
}

TEST(IpAddressTest, RefusesTextThatIsNotAnAddress) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {""sv, "192.0.2"sv, "192.0.2.256"sv, "192.0.02.1"sv, "192.0.2.1 "sv, " 192.0.2.1"sv,
        "192.0.2.1/32"sv, "192.0.2.1:80"sv, "[::1]"sv, "fe80::1%eth0"sv, ":::1"sv, "1:2"sv,
        "example.org"sv, "192.0.2.1\0"sv, "192.0.2.1\0x"sv, "0x7f.0.0.1"sv, "2130706433"sv,
        "1111:2222:3333:4444:5555:6666:7777:8888:9999"sv})
    EXPECT_FALSE(IpAddress::parse(text)) << text;
}

TEST(IpAddressTest, MappedAddressIsTheIpv4Address) {
  EXPECT_EQ(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
  EXPECT_TRUE(ip("::ffff:192.0.2.1").is_v4());
  EXPECT_TRUE(ip("::192.0.2.1").is_v6());
  EXPECT_TRUE(IpAddress().is_v6());
}

TEST(IpAddressTest, KnowsUnspecifiedAndLoopback) {
  EXPECT_TRUE(ip("0.0.0.0").is_unspecified());
  EXPECT_TRUE(ip("::").is_unspecified());
  EXPECT_FALSE(ip("0.0.0.1").is_unspecified());
  EXPECT_TRUE(ip("127.1.2.3").is_loopback());
  EXPECT_TRUE(ip("::1").is_loopback());
  EXPECT_FALSE(ip("128.0.0.1").is_loopback());
  EXPECT_FALSE(ip("1::1").is_loopback());
}

TEST(IpAddressTest, ComesFromSocketAddresses) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(0xC0000201);
  EXPECT_EQ(IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&in)), ip("192.0.2.1"));
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_addr.s6_addr[0] = 0x20;
  in6.sin6_addr.s6_addr[15] = 1;
  EXPECT_EQ(IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&in6)), ip("2000::1"));
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  EXPECT_FALSE(IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&un)));
  EXPECT_FALSE(IpAddress::from_sockaddr(nullptr));
}

TEST(IpAddressTest, EqualAddressesHashEqually) {
  std::unordered_set<IpAddress> set = {ip("192.0.2.1"), ip("::ffff:192.0.2.1"), ip("192.0.2.2"),
                                       ip("2001:db8::1")};
  EXPECT_EQ(set.size(), 3U);
}

TEST(IpPrefixTest, ParsesAddressAndLength) {
  EXPECT_EQ(prefix("10.0.0.0/8").to_string(), "10.0.0.0/8");
  EXPECT_EQ(prefix("10.0.0.77/24").to_string(), "10.0.0.77/24");
  EXPECT_EQ(prefix("192.0.2.1").to_string(), "192.0.2.1/32");
  EXPECT_EQ(prefix("2001:db8::/0").length, 0);
  EXPECT_TRUE(prefix("192.0.2.1").is_single());
  EXPECT_TRUE(prefix("2001:db8::1/128").is_single());
  EXPECT_FALSE(prefix("192.0.2.1/31").is_single());
}

TEST(IpPrefixTest, RefusesTextThatIsNotAPrefix) {
  for (const std::string_view text :
       {"10.0.0.0/33", "2001:db8::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08",
        "10.0.0.0/8/8", "10.0.0.0/a", "/8", "10.0.0.0/ 8", "10.0.0.0/0008"})
    EXPECT_FALSE(IpPrefix::parse(text)) << text;
}

// Both are IPv6 text, so that the length is of 128 bits.
TEST(IpPrefixTest, CountsTheBitsOfIPv6InAMappedPrefix) {
  EXPECT_EQ(IpPrefix::parse("::ffff:10.0.0.0/104"), IpPrefix::parse("10.0.0.0/8"));
  EXPECT_EQ(IpPrefix::parse("::ffff:0:0/96"), IpPrefix::parse("0.0.0.0/0"));
  EXPECT_EQ(IpPrefix::parse("::ffff:192.0.2.1/128"), IpPrefix::parse("192.0.2.1"));
  for (const char* const text : {"::ffff:10.0.0.0/8", "::ffff:10.0.0.0/95", "::ffff:10.0.0.0/129"})
    EXPECT_FALSE(IpPrefix::parse(text).has_value()) << text;
}

TEST(IpPrefixTest, ContainsByTheBitsOfItsLength) {
  struct Case {
    std::string_view prefix;
    std::string_view address;
    bool contains;
  };
  for (const Case& c : {
           Case{"10.0.0.0/8", "10.255.255.255", true},
           Case{"10.0.0.0/8", "11.0.0.0", false},
           Case{"10.0.0.0/9", "10.127.255.255", true},
           Case{"10.0.0.0/9", "10.128.0.0", false},
           Case{"10.0.0.77/24", "10.0.0.1", true},
           Case{"192.0.2.1/32", "192.0.2.1", true},
           Case{"192.0.2.1/32", "192.0.2.0", false},
           Case{"0.0.0.0/0", "255.255.255.255", true},
           Case{"0.0.0.0/0", "2001:db8::1", false},
           Case{"::/0", "192.0.2.1", false},
           Case{"2001:db8::/33", "2001:db8:7fff::", true},
           Case{"2001:db8::/33", "2001:db8:8000::", false},
           Case{"2001:db8::1/128", "2001:db8::1", true},
       })
    EXPECT_EQ(prefix(c.prefix).contains(ip(c.address)), c.contains) << c.prefix << " " << c.address;
}

}  // namespace
}  // namespace meshdns
