// SPDX-License-Identifier: Apache-2.0
// The zones against the addresses that they stand for; tests/scenarios/reverse has the answers.
#include "dnsd/answer/locally_served.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dnsd/config/values.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {
namespace {

bool is_served(const LocallyServedZones& zones, std::string_view name) {
  static const registry::Registry kEmpty{registry::MeshSettings()};
  const registry::View view(*kEmpty.current(), *kEmpty.current()->default_client);
  return zones.decide(view, {.name = name, .type = wire::Type::Ptr}).has_value();
}

std::string reverse_name_of_address(const IpAddress& address) {
  return parse_zones(address.to_string() + (address.is_v4() ? "/32" : "/128"))->front();
}

// From the numbers of IANA's registries of special-purpose addresses, octet by octet.
bool is_special_v4(const std::array<std::uint8_t, 4>& a) {
  const auto begins = [&](std::initializer_list<int> octets) {
    return std::ranges::equal(octets, std::span(a).first(octets.size()));
  };
  return a[0] == 0 || a[0] == 10 || a[0] == 127 || begins({169, 254}) || begins({192, 168}) ||
         (a[0] == 100 && a[1] >= 64 && a[1] <= 127) || (a[0] == 172 && a[1] >= 16 && a[1] <= 31) ||
         begins({192, 0, 2}) || begins({198, 51, 100}) || begins({203, 0, 113}) ||
         begins({255, 255, 255, 255});
}

bool is_special_v6(const std::array<std::uint8_t, 16>& a) {
  const bool is_small = std::ranges::count(std::span(a).first(15), 0) == 15 && a[15] <= 1;
  return is_small || a[0] == 0xfd || (a[0] == 0xfe && a[1] >= 0x80 && a[1] <= 0xbf) ||
         (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8) ||
         (a[0] == 0x3f && a[1] == 0xff && a[2] < 0x10);
}

TEST(LocallyServedZonesTest, AreTheReverseNamesOfSpecialAddressesAndNoOthers) {
  const LocallyServedZones zones{UpstreamConfig{}};
  std::mt19937 random(1);
  // First octets that matter are as frequent as all others together.
  constexpr std::array<int, 12> kFirst = {0, 10, 100, 127, 169, 172, 192, 198, 203, 255, 11, 171};
  constexpr std::array<int, 10> kSecond = {63, 64, 127, 128, 254, 15, 16, 31, 32, 168};
  const auto pick = [&](const auto& values) {
    return static_cast<std::uint8_t>(random() % 2 == 0 ? values[random() % values.size()]
                                                       : random() % 256);
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::array<std::uint8_t, 4> octets = {pick(kFirst), pick(kSecond),
                                                static_cast<std::uint8_t>(random()),
                                                static_cast<std::uint8_t>(random())};
    const IpAddress address = IpAddress::v4(octets);
    EXPECT_EQ(is_served(zones, reverse_name_of_address(address)), is_special_v4(octets))
        << address.to_string();
  }
  for (const std::string_view text :
       {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", "198.51.99.255", "198.51.100.0",
        "198.51.101.0", "203.0.112.255", "203.0.113.255", "203.0.114.0", "255.255.255.254",
        "255.255.255.255", "100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"}) {
    const IpAddress address = *IpAddress::parse(text);
    std::array<std::uint8_t, 4> octets;
    std::ranges::copy_n(address.octets().begin() + 12, 4, octets.begin());
    EXPECT_EQ(is_served(zones, reverse_name_of_address(address)), is_special_v4(octets)) << text;
  }
}

TEST(LocallyServedZonesTest, HoldForIpv6) {
  const LocallyServedZones zones{UpstreamConfig{}};
  for (const std::string_view text :
       {"::",      "::1",         "::2",         "fc00::1",          "fd00::1",
        "fdff::1", "fe7f::1",     "fe80::1",     "febf::1",          "fec0::1",
        "ff02::1", "2001:db7::1", "2001:db8::1", "2001:db8:ffff::1", "2001:db9::1",
        "3ffe::1", "3fff::1",     "3fff:fff::1", "3fff:1000::1",     "2606:4700::1"}) {
    const IpAddress address = *IpAddress::parse(text);
    EXPECT_EQ(is_served(zones, reverse_name_of_address(address)), is_special_v6(address.octets()))
        << text;
  }
}

TEST(LocallyServedZonesTest, LeaveWhatTheOperatorForwards) {
  UpstreamConfig config;
  config.zones["9.10.in-addr.arpa"] = {};
  config.zones["ip6.arpa"] = {};
  config.zones["corp.example"] = {};
  const LocallyServedZones zones(config);
  EXPECT_FALSE(is_served(zones, "1.0.9.10.in-addr.arpa"));
  EXPECT_FALSE(is_served(zones, "9.10.in-addr.arpa"));
  EXPECT_FALSE(is_served(zones, "1.d.f.ip6.arpa"));
  EXPECT_TRUE(is_served(zones, "1.0.8.10.in-addr.arpa"));
  EXPECT_TRUE(is_served(zones, "10.in-addr.arpa"));
  config.locally_served_zones = LocallyServed::Forward;
  EXPECT_FALSE(is_served(LocallyServedZones(config), "10.in-addr.arpa"));
}

}  // namespace
}  // namespace meshdns::dnsd
