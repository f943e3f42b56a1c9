// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

#include <gtest/gtest.h>

namespace meshdns {
namespace {

TEST(PercentEncodingTest, LeavesUnreservedCharactersAlone) {
  EXPECT_EQ(percent_encoded("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(percent_encoded(""), "");
}

TEST(PercentEncodingTest, EncodesAllOthers) {
  EXPECT_EQ(percent_encoded("a=b,c in (d)&%"), "a%3Db%2Cc%20in%20%28d%29%26%25");
  EXPECT_EQ(percent_encoded(std::string_view("\0\x7f\xc3\xa9", 4)), "%00%7F%C3%A9");
}

}  // namespace
}  // namespace meshdns
