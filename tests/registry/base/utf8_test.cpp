// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

#include <gtest/gtest.h>

#include <string>

namespace meshdns::registry {
namespace {

using std::string_literals::operator""s;

TEST(Utf8Test, AcceptsEachLengthOfCharacter) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("abc \x7f\x01"));
  EXPECT_TRUE(
      is_utf8("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
}

TEST(Utf8Test, RefusesOverlongFormsSurrogatesAndWhatIsCutOff) {
  for (const char* text : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                           "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                           "\xc2", "\xe2\x82", "\xf0\x9f\x92", "\xc2g"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Utf8Test, FindsTheFirstByteThatNoFileMayHave) {
  EXPECT_FALSE(find_unreadable("a:\tb\r\n\xc3\xa9"));
  const auto invalid = find_unreadable("ab\xffgh\x01");
  ASSERT_TRUE(invalid);
  EXPECT_EQ(invalid->offset, 2U);
  EXPECT_EQ(invalid->reason, "not UTF-8 text: invalid sequence");
  for (const std::string& text : {"abc\x01"s, "abc\x7f"s, "abc\x1b"s}) {
    const auto control = find_unreadable(text);
    ASSERT_TRUE(control);
    EXPECT_EQ(control->offset, 3U);
    EXPECT_EQ(control->reason, "control characters are not allowed");
  }
  EXPECT_EQ(find_unreadable("abc\0"s)->reason, "NUL octets are not allowed");
}

}  // namespace
}  // namespace meshdns::registry
