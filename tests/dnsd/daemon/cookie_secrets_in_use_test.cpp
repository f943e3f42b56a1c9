// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_settings_in_use.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;

constexpr auto kDay = CookieSecretsInUse::kLifetime;

class CookieSecretsInUseTest : public testing::Test {
 protected:
  ~CookieSecretsInUseTest() override { std::filesystem::remove(file_); }
  void write(std::string_view text) { std::ofstream(file_) << text; }

  const std::string file_ =
      testing::TempDir() + "cookie_secrets_in_use_test-" + std::to_string(getpid());
  CookieSecretsInUse::Time now_{100s};
  Log log_{{.level = LogLevel::Off}};
  CookieSecretsInUse in_use_{log_, now_};
};

TEST_F(CookieSecretsInUseTest, HasSecretsThatNobodyElseHas) {
  const CookieSecretsInUse other(log_, now_);
  EXPECT_NE(in_use_.secrets().current, other.secrets().current);
  EXPECT_NE(in_use_.secrets().current, CookieSecret{});
}

TEST_F(CookieSecretsInUseTest, HasAnotherOneEveryDayAndAcceptsTheLast) {
  const CookieSecret first = in_use_.secrets().current;
  EXPECT_FALSE(in_use_.tick(now_ + kDay - 1s));
  EXPECT_EQ(in_use_.secrets().current, first);
  EXPECT_TRUE(in_use_.tick(now_ + kDay));
  const CookieSecret second = in_use_.secrets().current;
  EXPECT_NE(second, first);
  EXPECT_EQ(in_use_.secrets().other, first);
  EXPECT_FALSE(in_use_.tick(now_ + kDay + 1s));
  EXPECT_TRUE(in_use_.tick(now_ + 2 * kDay));
  EXPECT_EQ(in_use_.secrets().other, second);
}

TEST_F(CookieSecretsInUseTest, FollowsAFileWhichDoesNotAge) {
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n445536bcd2513298075a5d379663c962\n");
  in_use_.follow(file_, now_);
  EXPECT_EQ(in_use_.secrets(), *read_cookie_secrets(file_));
  EXPECT_FALSE(in_use_.tick(now_ + 10 * kDay));
  write("445536bcd2513298075a5d379663c962\n");
  in_use_.follow(file_, now_);
  EXPECT_EQ(in_use_.secrets(), *read_cookie_secrets(file_));
}

TEST_F(CookieSecretsInUseTest, KeepsWhatItHasWhenTheFileIsNoGood) {
  const CookieSecrets random = in_use_.secrets();
  in_use_.follow(file_, now_);
  EXPECT_EQ(in_use_.secrets(), random) << "it is missing";
  EXPECT_TRUE(in_use_.tick(now_ + kDay)) << "random ones age";
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n");
  in_use_.follow(file_, now_);
  const CookieSecrets shared = in_use_.secrets();
  write("e5e973e5");
  in_use_.follow(file_, now_);
  EXPECT_EQ(in_use_.secrets(), shared);
  EXPECT_FALSE(in_use_.tick(now_ + 10 * kDay));
}

TEST_F(CookieSecretsInUseTest, GoesBackToRandomOnesAndAcceptsThoseOfTheFile) {
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n");
  in_use_.follow(file_, now_);
  const CookieSecret shared = in_use_.secrets().current;
  in_use_.follow("", now_ + 1h);
  const CookieSecrets random = in_use_.secrets();
  EXPECT_NE(random.current, shared);
  EXPECT_EQ(random.other, shared);
  in_use_.follow("", now_ + 2h);
  EXPECT_EQ(in_use_.secrets(), random) << "a reload changes nothing";
  EXPECT_TRUE(in_use_.tick(now_ + 1h + kDay));
}

}  // namespace
}  // namespace meshdns::dnsd
