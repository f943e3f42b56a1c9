// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

TEST(PrintableTextTest, EscapesWhatIsNoPrintableAscii) {
  EXPECT_EQ(printable("api.example.org %s"), "api.example.org %s");
  EXPECT_EQ(printable(std::string_view("a\0b\r\n\t\x1b[2J\x7f\xc3\xa4", 13)),
            "a\\000b\\013\\010\\009\\027[2J\\127\\195\\164");
  EXPECT_EQ(in_quotes("a\nb"), "\"a\\010b\"");
}

TEST(PrintableTextTest, CutsWhatIsLong) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345...");
  EXPECT_EQ(registry::in_quotes(std::string(1'000'000, '\n')).size(), 2 + 4 * 100 + 3);
}

TEST(PrintableTextTest, LeavesWhatIsEscapedAlready) {
  const std::string once = printable("a\\\nb");
  EXPECT_EQ(printable(once), once);
}

TEST(PrintableTextTest, MakesUtf8OfAnyOctets) {
  EXPECT_EQ(as_utf8("a\"\n\xc3\xa4"), "a\"\n\xc3\xa4");
  EXPECT_EQ(as_utf8("a\xff\"\xc3\xa4"), "a\\255\"\\195\\164");
  EXPECT_EQ(as_utf8("\xc3"), "\\195");
}

TEST(EscapeTest, EscapesControlOctetsAndTheBackslash) {
  EXPECT_EQ(escape("api.example.org"), "api.example.org");
  EXPECT_EQ(escape(std::string_view("a\0b\r\nERROR\t\x1b[2J\x7f\xff\\", 18)),
            "a\\000b\\013\\010ERROR\\009\\027[2J\\127\\255\\092");
  EXPECT_EQ(escape("%s%n"), "%s%n");
  EXPECT_EQ(escape(""), "");
}

}  // namespace
}  // namespace meshdns::registry
