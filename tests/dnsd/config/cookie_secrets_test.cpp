// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/cookie_secrets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr CookieSecret kFirst = {0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f,
                                 0x48, 0xe7, 0xdc, 0x84, 0x9e, 0x37, 0xbf, 0xcf};
constexpr CookieSecret kSecond = {0x44, 0x55, 0x36, 0xbc, 0xd2, 0x51, 0x32, 0x98,
                                  0x07, 0x5a, 0x5d, 0x37, 0x96, 0x63, 0xc9, 0x62};

TEST(CookieSecretsTest, ReadsOneOrTwo) {
  const struct {
    const char* text;
    CookieSecrets secrets;
  } cases[] = {
      {"e5e973e5a6b2a43f48e7dc849e37bfcf", {kFirst, {}}},
      {"E5E973E5A6B2A43F48E7DC849E37BFCF\r\n", {kFirst, {}}},
      {"# ours\n\n  e5e973e5a6b2a43f48e7dc849e37bfcf\t# now\n445536bcd2513298075a5d379663c962\n",
       {kFirst, kSecond}},
  };
  for (const auto& c : cases) {
    const auto secrets = parse_cookie_secrets(c.text);
    ASSERT_TRUE(secrets) << c.text << ": " << secrets.error().message;
    EXPECT_EQ(*secrets, c.secrets) << c.text;
  }
}

TEST(CookieSecretsTest, ErrorsNameTheLineButNotTheSecret) {
  const std::string good = "e5e973e5a6b2a43f48e7dc849e37bfcf\n";
  const struct {
    std::string text;
    const char* line;
  } cases[] = {
      {"", "1:"},
      {"# none\n", "1:"},
      {"e5e973e5a6b2a43f48e7dc849e37bfc\n", "1:"},
      {"e5e973e5a6b2a43f48e7dc849e37bfcf0\n", "1:"},
      {"e5e973e5a6b2a43f 48e7dc849e37bfcf\n", "1:"},
      {good + "g5e973e5a6b2a43f48e7dc849e37bfcf\n", "2:"},
      {good + "-5e973e5a6b2a43f48e7dc849e37bfcf\n", "2:"},
      {good + good + "\n" + good, "4:"},
  };
  for (const auto& c : cases) {
    const auto secrets = parse_cookie_secrets(c.text);
    ASSERT_FALSE(secrets) << c.text;
    EXPECT_THAT(secrets.error().message, StartsWith(c.line)) << c.text;
    EXPECT_THAT(secrets.error().message, Not(HasSubstr("e973"))) << c.text;
  }
}

TEST(CookieSecretsTest, ErrorsNameAMissingFile) {
  EXPECT_THAT(read_cookie_secrets("/nonexistent/secret").error().message,
              StartsWith("/nonexistent/secret: "));
}

}  // namespace
}  // namespace meshdns::dnsd
