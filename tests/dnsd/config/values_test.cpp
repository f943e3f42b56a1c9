// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

struct DurationCase {
  std::string_view text;
  std::int64_t ms;
};

TEST(DurationTest, ReadsEveryUnit) {
  for (const auto& [text, ms] : {DurationCase{"0", 0},
                                 {"0s", 0},
                                 {"500ms", 500},
                                 {"2s", 2000},
                                 {"5m", 300'000},
                                 {"1h", 3'600'000},
                                 {"1h30m", 5'400'000},
                                 {"1m500ms", 60'500},
                                 {"87600h", 315'360'000'000}})
    EXPECT_EQ(parse_duration(text).value_or(milliseconds(-1)), milliseconds(ms)) << text;
}

TEST(DurationTest, RefusesTextThatIsNotADuration) {
  for (const std::string_view text :
       {"", "s", "2", "-2s", "+2s", "2 s", " 2s", "2s ", "2S", "1.5s", "2d", "2sec", "1h30", "0x2s",
        "99999999999999999999s", "18446744073709551615h", "87601h", "2s\n"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(DurationTest, SuggestsTheUnitForABareNumber) {
  EXPECT_THAT(parse_duration("5").error().message, HasSubstr("write 5s"));
}

TEST(DurationTest, ReadsBackThePrintedForm) {
  for (const std::int64_t ms : {0, 1, 500, 999, 1000, 1500, 60'000, 61'000, 3'600'000, 5'400'000})
    EXPECT_EQ(parse_duration(format_duration(milliseconds(ms))).value_or(milliseconds(-1)),
              milliseconds(ms));
  EXPECT_EQ(format_duration(milliseconds(3'600'000)), "1h");
  EXPECT_EQ(format_duration(milliseconds(1500)), "1500ms");
}

TEST(SizeTest, ReadsEveryUnit) {
  EXPECT_EQ(parse_size("0").value_or(1), 0U);
  EXPECT_EQ(parse_size("1000").value_or(0), 1000U);
  EXPECT_EQ(parse_size("512KiB").value_or(0), 512U << 10);
  EXPECT_EQ(parse_size("64MiB").value_or(0), 64U << 20);
  EXPECT_EQ(parse_size("1024GiB").value_or(0), 1ULL << 40);
}

TEST(SizeTest, RefusesOtherUnitsAndLargerSizes) {
  for (const std::string_view text : {"", "MiB", "64MB", "64M", "64mib", "-1", "1.5MiB", "64 MiB",
                                      "64MiBB", "1025GiB", "18446744073709551615GiB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(SizeTest, ReadsBackThePrintedForm) {
  for (const std::uint64_t octets :
       {0ULL, 1ULL, 1000ULL, 1024ULL, 1536ULL, 64ULL << 20, 1ULL << 40})
    EXPECT_EQ(parse_size(format_size(octets)).value_or(7), octets);
  EXPECT_EQ(format_size(64U << 20), "64MiB");
}

TEST(UnsignedTest, TakesDecimalDigitsOnly) {
  EXPECT_EQ(parse_unsigned("0").value_or(1), 0U);
  EXPECT_EQ(parse_unsigned("18446744073709551615").value_or(0), 18446744073709551615ULL);
  for (const std::string_view text :
       {"", "-1", "+1", "010", "0x10", "1e3", "1_000", "1 ", "18446744073709551616"})
    EXPECT_FALSE(parse_unsigned(text)) << text;
}

TEST(ShareTest, IsFromZeroToOne) {
  EXPECT_EQ(parse_share("0").value_or(9), 0.0);
  EXPECT_EQ(parse_share("0.25").value_or(9), 0.25);
  EXPECT_EQ(parse_share("1.0").value_or(9), 1.0);
  for (const std::string_view text :
       {"", "-0.1", "1.01", "nan", "inf", "50%", "0,5", "0.5x", "00", "01"})
    EXPECT_FALSE(parse_share(text)) << text;
}

TEST(DomainTest, ReturnsLowerCaseWithoutTheFinalDot) {
  EXPECT_EQ(parse_domain("Corp.Example.ORG.").value_or(""), "corp.example.org");
  EXPECT_EQ(parse_domain("_dns.example.org").value_or(""), "_dns.example.org");
}

TEST(DomainTest, RefusesInvalidNames) {
  const std::string long_label(64, 'a');
  const std::string long_name = [] {
    std::string name;
    for (int i = 0; i < 64; ++i) name += "abc.";
    return name + "org";
  }();
  for (const std::string_view text :
       {std::string_view(""), std::string_view("."), std::string_view("a..b"),
        std::string_view(".a"), std::string_view("a.."), std::string_view("a b"),
        std::string_view("*.a"), std::string_view("a\0b", 3), std::string_view("\xc3\xa4.org"),
        std::string_view(long_label), std::string_view(long_name)})
    EXPECT_FALSE(parse_domain(text)) << text;
}

TEST(ZonesTest, TurnsPrefixesIntoTheirReverseZones) {
  EXPECT_THAT(*parse_zones("Corp.Example."), ElementsAre("corp.example"));
  EXPECT_THAT(*parse_zones("."), ElementsAre(""));
  EXPECT_THAT(*parse_zones("10.0.0.0/8"), ElementsAre("10.in-addr.arpa"));
  EXPECT_THAT(*parse_zones("10.20.30.40/32"), ElementsAre("40.30.20.10.in-addr.arpa"));
  EXPECT_THAT(*parse_zones("0.0.0.0/0"), ElementsAre("in-addr.arpa"));
  EXPECT_THAT(*parse_zones("2001:db8::/32"), ElementsAre("8.b.d.0.1.0.0.2.ip6.arpa"));
}

TEST(ZonesTest, CoversAPrefixBetweenLabelsWithSeveralZones) {
  EXPECT_THAT(*parse_zones("172.22.1.1/15"),
              ElementsAre("22.172.in-addr.arpa", "23.172.in-addr.arpa"));
  EXPECT_THAT(*parse_zones("10.96.0.0/12"), SizeIs(16));
  EXPECT_THAT(*parse_zones("128.0.0.0/1"), SizeIs(128));
  EXPECT_EQ(parse_zones("128.0.0.0/1")->back(), "255.in-addr.arpa");
  EXPECT_THAT(*parse_zones("2001:db8::/31"),
              ElementsAre("8.b.d.0.1.0.0.2.ip6.arpa", "9.b.d.0.1.0.0.2.ip6.arpa"));
}

TEST(ZonesTest, RefusesInvalidZones) {
  for (const std::string_view text : {"", "10.0.0.0/33", "10.0.0/8", "/8", "a..b", "*.example.org"})
    EXPECT_FALSE(parse_zones(text)) << text;
}

}  // namespace
}  // namespace meshdns::dnsd
