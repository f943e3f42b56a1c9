// SPDX-License-Identifier: Apache-2.0
#include "registry/base/host_name.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace meshdns {
namespace {

const std::string kLabel63(63, 'a');
const std::string kLabel64(64, 'a');

// A name of exactly `octets` octets in labels of at most 63.
std::string name_of(std::size_t octets) {
  std::string name;
  while (name.size() + 64 < octets) name += std::string(63, 'a') + ".";
  return name + std::string(octets - name.size(), 'b');
}

TEST(HostNameTest, CanonicalNameIsLowerCaseWithoutFinalDot) {
  EXPECT_EQ(canonical_host("API.Example.ORG."), "api.example.org");
  EXPECT_EQ(canonical_host("api"), "api");
  EXPECT_EQ(canonical_host("."), "");
  EXPECT_EQ(canonical_host("a.."), "a.");
}

TEST(HostNameTest, LowerCaseTouchesOnlyAsciiLetters) {
  EXPECT_EQ(to_lower("@AZ[`az{\xC3\x84"), "@az[`az{\xC3\x84");
  EXPECT_TRUE(equals_ignoring_case("Example", "eXAMPLE"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));
  EXPECT_FALSE(equals_ignoring_case("a", "ab"));
}

// The comparison takes eight octets at once, and the last ones by themselves.
TEST(HostNameTest, EachPairOfOctetsIsComparedAtEachPlace) {
  for (const std::size_t size : {3, 8, 19}) {
    const std::string text(size, 'x');
    for (int a = 0; a < 256; ++a)
      for (int b = 0; b < 256; ++b) {
        const std::size_t at = static_cast<std::size_t>(a + b) % size;
        std::string one = text;
        std::string other = text;
        one[at] = static_cast<char>(a);
        other[at] = static_cast<char>(b);
        ASSERT_EQ(equals_ignoring_case(one, other), to_lower(one[at]) == to_lower(other[at]))
            << a << " " << b << " at " << at << " of " << size;
      }
  }
}

TEST(HostNameTest, SuffixesAreComparedByLabels) {
  EXPECT_TRUE(is_at_or_below("a.example.org", "example.org"));
  EXPECT_TRUE(is_at_or_below("example.org", "example.org"));
  EXPECT_FALSE(is_at_or_below("badexample.org", "example.org"));
  EXPECT_TRUE(is_below("a.example.org", "example.org"));
  EXPECT_FALSE(is_below("example.org", "example.org"));
  EXPECT_FALSE(is_below("org", "example.org"));
  EXPECT_TRUE(is_below("org", ""));
  EXPECT_FALSE(is_below("", ""));
}

TEST(HostNameTest, ParentsAndLabelsAreCounted) {
  EXPECT_EQ(parent_of("a.b.c"), "b.c");
  EXPECT_EQ(parent_of("c"), "");
  EXPECT_EQ(count_labels(""), 0U);
  EXPECT_EQ(count_labels("a"), 1U);
  EXPECT_EQ(count_labels("a.b.c"), 3U);
}

TEST(HostNameTest, LabelsHaveLettersDigitsAndInnerHyphens) {
  for (const std::string& good :
       {std::string("a"), std::string("0"), std::string("A-9"), std::string("xn--a"), kLabel63})
    EXPECT_TRUE(is_label(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a_b"), std::string("a b"),
        std::string("a.b"), std::string("*"), std::string("\xC3\xA4"), std::string("a\0b", 3),
        kLabel64})
    EXPECT_FALSE(is_label(bad)) << bad;
}

struct NameCase {
  std::string name;
  bool is_fqdn;
  bool is_wildcard_domain;
};

TEST(HostNameTest, AcceptsTheNamesThatIstioAccepts) {
  const std::array cases = {
      NameCase{"example.org", true, true},
      NameCase{"example.org.", true, true},
      NameCase{"one-label", true, true},
      NameCase{"123.example.org", true, true},
      NameCase{"a.4chan", true, true},
      NameCase{"", false, false},
      NameCase{".", false, false},
      NameCase{"..", false, false},
      NameCase{"a..b", false, false},
      NameCase{".a", false, false},
      NameCase{"a..", false, false},
      NameCase{"example.123", false, false},
      NameCase{"123", false, false},
      NameCase{"192.0.2.1", false, false},
      NameCase{"2001:db8::1", false, false},
      NameCase{"a_b.example.org", false, false},
      NameCase{"*", false, true},
      NameCase{"*.example.org", false, true},
      NameCase{"*api.example.org", false, true},
      NameCase{"*-api.example.org", false, true},
      NameCase{"*api", false, true},
      NameCase{"*-", false, false},
      NameCase{"*-.example.org", false, false},
      NameCase{"*api-.example.org", false, false},
      NameCase{"*.", false, false},
      NameCase{"*..org", false, false},
      NameCase{"*.123", false, false},
      NameCase{"*.*.example.org", false, false},
      NameCase{"a.*.example.org", false, false},
      NameCase{"api*.example.org", false, false},
      NameCase{"**.example.org", false, false},
      NameCase{kLabel63 + ".org", true, true},
      NameCase{kLabel64 + ".org", false, false},
      NameCase{name_of(255), true, true},
      NameCase{name_of(256), false, false},
      NameCase{"*." + name_of(253), false, true},
      NameCase{"*." + name_of(254), false, false},
  };
  for (const NameCase& c : cases) {
    EXPECT_EQ(is_fqdn(c.name), c.is_fqdn) << c.name;
    EXPECT_EQ(is_wildcard_domain(c.name), c.is_wildcard_domain) << c.name;
  }
}

}  // namespace
}  // namespace meshdns
