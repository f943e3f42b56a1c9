// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/denied_answers.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

std::string octets_of(const IpAddress& address) {
  const auto& octets = address.octets();
  const std::size_t first = address.is_v4() ? 12 : 0;
  return {octets.begin() + static_cast<std::ptrdiff_t>(first), octets.end()};
}

const struct {
  const char* address;
  bool denied;
} kCases[] = {
    {"10.1.2.3", true},
    {"192.0.2.1", false},
    {"fd00::1", true},
    {"2001:db8::1", false},
    // IPv4-mapped, IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765)
    {"::ffff:10.1.2.3", true},
    {"::ffff:192.0.2.1", false},
    {"::10.1.2.3", true},
    {"::192.0.2.1", false},
    {"::ffff:0:10.1.2.3", true},
    {"::ffff:0:192.0.2.1", false},
    // NAT64: the well-known prefix (RFC 6052), the one for local use (RFC 8215), the configured one
    {"64:ff9b::10.1.2.3", true},
    {"64:ff9b::192.0.2.1", false},
    {"64:ff9b:1::10.1.2.3", true},
    {"64:ff9b:1::192.0.2.1", false},
    {"64:ff9b:1:abcd:ef01:2345:10.1.2.3", true},
    {"64:ff9b:1:a01:2:300::", true},    // /48
    {"64:ff9b:1:a:1:203::", true},      // /56
    {"64:ff9b:1:0:a:102:300:0", true},  // /64
    {"64:ff9b:1:c000:2:100::", false},
    {"2001:db8:64:6401:0:a01:200:0", false},
    {"2001:db8:64:a01:2:300::", true},  // 2001:db8:64::/48
    {"2001:db8:64:c000:2:100::", false},
    {"2001:db8:65:a01:2:300::", false},
    // 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214)
    {"2002:a01:203::1", true},
    {"2002:c000:201::1", false},
    {"2001:0:a01:203::", true},
    {"2001:0:c000:201:0:0:f5fe:fdfc", true},
    {"2001:0:c000:201:0:0:3fff:fdfe", false},
    {"2001:db8::5efe:10.1.2.3", true},
    {"2001:db8::200:5efe:10.1.2.3", true},
    {"2001:db8::5efe:192.0.2.1", false},
    {"2001:db8::100:5efe:10.1.2.3", false},
    {"2001:db8::1:5efe:10.1.2.3", false},
    {"2001:db8::5ffe:10.1.2.3", false},
    {"2001:db8::5eff:10.1.2.3", false},
};

DeniedAddresses denied() {
  return DeniedAddresses({*IpPrefix::parse("10.0.0.0/8"), *IpPrefix::parse("fc00::/7")},
                         IpPrefix::parse("2001:db8:64::/48"));
}

TEST(DeniedAddressesTest, FindsIpv4AddressesInsideOfIpv6Ones) {
  for (const auto& each : kCases) {
    const auto address = IpAddress::parse(each.address);
    ASSERT_TRUE(address) << each.address;
    EXPECT_EQ(denied().contains(*address), each.denied) << each.address;
  }
}

TEST(DeniedAddressesTest, FindsThemInRecordsAndHints) {
  for (const auto& each : kCases) {
    const IpAddress address = *IpAddress::parse(each.address);
    const std::string octets = octets_of(address);
    const auto type = address.is_v4() ? wire::Type::A : wire::Type::Aaaa;
    EXPECT_EQ(denied().has_record(type, octets), each.denied) << each.address;
    std::string hint("\0\1\1t\7example\0\0", 14);
    hint += address.is_v4() ? '\4' : '\6';
    hint += '\0';
    hint += static_cast<char>(octets.size());
    hint += octets;
    for (const auto binding : {wire::Type::Svcb, wire::Type::Https})
      EXPECT_EQ(denied().has_record(binding, hint), each.denied) << each.address;
    EXPECT_FALSE(denied().has_record(wire::Type::Txt, octets));
  }
}

TEST(DeniedAddressesTest, ZerosOfALongerTranslationPrefixAreNoAddress) {
  const DeniedAddresses zero({*IpPrefix::parse("0.0.0.0/8")});
  EXPECT_FALSE(zero.contains(*IpAddress::parse("64:ff9b:1::192.0.2.1")));
  EXPECT_TRUE(zero.contains(*IpAddress::parse("64:ff9b:1::")));
  EXPECT_TRUE(zero.contains(*IpAddress::parse("::")));
}

TEST(DeniedAddressesTest, AnyDataIsSafe) {
  const std::string all("\0\1\77\0\4\0\4\12\0\0\1\0\6\0\20", 15);
  for (std::size_t from = 0; from <= all.size(); ++from)
    for (std::size_t size = 0; from + size <= all.size(); ++size)
      for (const auto type : {wire::Type::A, wire::Type::Aaaa, wire::Type::Https})
        denied().has_record(type, std::string_view(all).substr(from, size));
  // The data of one type as that of another.
  EXPECT_FALSE(denied().has_record(wire::Type::Aaaa, "\12\1\2\3"));
  EXPECT_FALSE(denied().has_record(wire::Type::A, octets_of(*IpAddress::parse("fd00::1"))));
}

TEST(DeniedAnswersTest, TheLongestZoneSaysWhetherANameIsExempt) {
  UpstreamConfig config;
  config.deny_answers = {*IpPrefix::parse("10.0.0.0/8")};
  for (const char* zone :
       {"corp.example", "link.corp.example", "own.link.corp.example", "link.test"})
    config.zones[zone] = {};
  config.link_zones = {"link.corp.example", "link.test"};
  const DeniedAnswers rule(config);
  for (const char* name : {"corp.example.", "a.corp.example.", "a.own.link.corp.example."})
    EXPECT_TRUE(rule.is_exempt(wire_name(name))) << name;
  for (const char* name :
       {"a.link.corp.example.", "link.test.", "a.link.test.", "www.example.org."})
    EXPECT_FALSE(rule.is_exempt(wire_name(name))) << name;
}

TEST(DeniedAddressesTest, NothingIsDeniedByDefault) {
  EXPECT_TRUE(DeniedAddresses().empty());
  EXPECT_FALSE(DeniedAddresses().contains(*IpAddress::parse("10.1.2.3")));
}

}  // namespace
}  // namespace meshdns::dnsd::test
