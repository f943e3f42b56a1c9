// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/admin_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

TEST(AdminAddressTest, ReadsBackThePrintedForm) {
  for (const std::string_view text :
       {"127.0.0.1:15054", "[::1]:0", "unix:/run/meshdns/admin.sock", "unix:/a b"}) {
    const auto address = parse_admin_address(text);
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_EQ(to_string(*address), text);
  }
}

TEST(AdminAddressTest, RefusesTextThatIsNeitherAddressNorAbsolutePath) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {""sv, "unix:"sv, "unix:admin.sock"sv, "unix:/run/"sv, "/run/admin.sock"sv, "localhost:1"sv,
        "127.0.0.1"sv, "unix:/a\0b"sv})
    EXPECT_FALSE(parse_admin_address(text)) << text;
}

TEST(AdminAddressTest, LimitsThePathToTheKernelsMaximum) {
  const std::string longest = "unix:/" + std::string(UnixAddress::kMaxLength - 1, 'a');
  EXPECT_TRUE(parse_admin_address(longest));
  const auto longer = parse_admin_address(longest + "a");
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("longer than 107 bytes"));
}

}  // namespace
}  // namespace meshdns::dnsd
