// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/server_cookies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::dnsd {
namespace {

using Octets = std::vector<std::uint8_t>;

Octets octets(std::string_view hex) {
  Octets octets;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    octets.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return octets;
}

CookieSecret secret(std::string_view hex) {
  CookieSecret secret;
  std::ranges::copy(octets(hex), secret.begin());
  return secret;
}

Octets made(std::string_view client_cookie, std::string_view client, const CookieSecret& with,
            std::uint32_t now) {
  const Octets first = octets(client_cookie);
  const Cookie cookie = make_cookie(std::span(first).first<kClientCookieOctets>(),
                                    *IpAddress::parse(client), with, now);
  return {cookie.begin(), cookie.end()};
}

CookieCheck check(const Octets& cookie, std::string_view client, const CookieSecrets& secrets,
                  std::uint32_t now) {
  return check_cookie(cookie, *IpAddress::parse(client), secrets, now);
}

// RFC 9018, appendix A.
const CookieSecret kSecret = secret("e5e973e5a6b2a43f48e7dc849e37bfcf");
const CookieSecret kEarlier = secret("dd3bdf9344b678b185a6f5cb60fca715");
const CookieSecret kLater = secret("445536bcd2513298075a5d379663c962");
constexpr std::string_view kClient = "198.51.100.100";
constexpr std::uint32_t kMadeAt = 1559731985;
const Octets kCookie = octets("2464c4abcf10c957010000005cf79f111f8130c3eee29480");

TEST(ServerCookiesTest, MakesThoseOfTheStandardsExamples) {
  EXPECT_EQ(made("2464c4abcf10c957", kClient, kSecret, kMadeAt), kCookie) << "A.1";
  EXPECT_EQ(made("2464c4abcf10c957", kClient, kSecret, 1559734385),
            octets("2464c4abcf10c957010000005cf7a871d4a564a1442aca77"))
      << "A.2";
  EXPECT_EQ(made("fc93fc62807ddb86", "203.0.113.203", kSecret, 1559734700),
            octets("fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"))
      << "A.3";
  EXPECT_EQ(made("22681ab97d52c298", "2001:db8:220:1:59de:d0f4:8769:82b8", kLater, 1559741961),
            octets("22681ab97d52c298010000005cf7c609a6bb79d16625507a"))
      << "A.4";
}

TEST(ServerCookiesTest, KnowsThoseOfTheStandardsExamples) {
  EXPECT_EQ(check(kCookie, kClient, {kSecret, {}}, 1559734385), CookieCheck::Valid) << "A.2";
  // With reserved octets that are not 0: a server of another version has made it.
  EXPECT_EQ(check(octets("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5"), "203.0.113.203",
                  {kSecret, {}}, 1559727985),
            CookieCheck::Valid)
      << "A.3";
  const Octets of_earlier = octets("22681ab97d52c298010000005cf7c57926556bd0934c72f8");
  constexpr std::string_view kV6 = "2001:db8:220:1:59de:d0f4:8769:82b8";
  EXPECT_EQ(check(of_earlier, kV6, {kLater, kEarlier}, 1559741961), CookieCheck::Valid) << "A.4";
  EXPECT_EQ(check(of_earlier, kV6, {kLater, {}}, 1559741961), CookieCheck::Invalid);
}

TEST(ServerCookiesTest, AreGoodForAnHourAndFiveMinutesAhead) {
  const struct {
    std::int64_t age;
    CookieCheck check;
  } cases[] = {{0, CookieCheck::Valid},      {3600, CookieCheck::Valid},
               {3601, CookieCheck::Invalid}, {-300, CookieCheck::Valid},
               {-301, CookieCheck::Invalid}, {std::int64_t{1} << 31, CookieCheck::Invalid}};
  // The second one is made just before the seconds' number begins again (RFC 1982).
  for (const std::uint32_t made_at : {kMadeAt, 0xfffffff0U})
    for (const auto& c : cases) {
      const Octets cookie = made("2464c4abcf10c957", kClient, kSecret, made_at);
      const auto now = static_cast<std::uint32_t>(made_at + c.age);
      EXPECT_EQ(check(cookie, kClient, {kSecret, {}}, now), c.check) << made_at << " " << c.age;
    }
}

TEST(ServerCookiesTest, AreGoodForOneAddressOnly) {
  for (const char* other : {"198.51.100.101", "2001:db8::1", "::198.51.100.100"})
    EXPECT_EQ(check(kCookie, other, {kSecret, {}}, kMadeAt), CookieCheck::Invalid) << other;
}

TEST(ServerCookiesTest, EveryBitCounts) {
  for (std::size_t bit = 0; bit < 8 * kCookie.size(); ++bit) {
    Octets damaged = kCookie;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_EQ(check(damaged, kClient, {kSecret, {}}, kMadeAt), CookieCheck::Invalid) << bit;
  }
}

TEST(ServerCookiesTest, RefusesOtherLengths) {
  for (std::size_t size = 16; size <= 40; ++size) {
    Octets cookie = kCookie;
    cookie.resize(size);
    EXPECT_EQ(check(cookie, kClient, {kSecret, {}}, kMadeAt),
              size == 24 ? CookieCheck::Valid : CookieCheck::Invalid)
        << size;
  }
  EXPECT_EQ(check(octets("2464c4abcf10c957"), kClient, {kSecret, {}}, kMadeAt),
            CookieCheck::ClientOnly);
}

}  // namespace
}  // namespace meshdns::dnsd
