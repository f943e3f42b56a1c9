// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_settings_keeper.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;

constexpr auto kDay = CookieSecretKeeper::kLifetime;

class CookieSecretKeeperTest : public testing::Test {
 protected:
  ~CookieSecretKeeperTest() override { std::filesystem::remove(file_); }
  void write(std::string_view text) { std::ofstream(file_) << text; }

  const std::string file_ =
      testing::TempDir() + "cookie_secret_keeper_test-" + std::to_string(getpid());
  CookieSecretKeeper::Time now_{100s};
  Log log_{{.level = LogLevel::Off}};
  CookieSecretKeeper keeper_{log_, now_};
};

TEST_F(CookieSecretKeeperTest, HasSecretsThatNobodyElseHas) {
  const CookieSecretKeeper other(log_, now_);
  EXPECT_NE(keeper_.secrets().current, other.secrets().current);
  EXPECT_NE(keeper_.secrets().current, CookieSecret{});
}

TEST_F(CookieSecretKeeperTest, HasAnotherOneEveryDayAndAcceptsTheLast) {
  const CookieSecret first = keeper_.secrets().current;
  EXPECT_FALSE(keeper_.tick(now_ + kDay - 1s));
  EXPECT_EQ(keeper_.secrets().current, first);
  EXPECT_TRUE(keeper_.tick(now_ + kDay));
  const CookieSecret second = keeper_.secrets().current;
  EXPECT_NE(second, first);
  EXPECT_EQ(keeper_.secrets().other, first);
  EXPECT_FALSE(keeper_.tick(now_ + kDay + 1s));
  EXPECT_TRUE(keeper_.tick(now_ + 2 * kDay));
  EXPECT_EQ(keeper_.secrets().other, second);
}

TEST_F(CookieSecretKeeperTest, FollowsAFileWhichDoesNotAge) {
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n445536bcd2513298075a5d379663c962\n");
  keeper_.follow(file_, now_);
  EXPECT_EQ(keeper_.secrets(), *read_cookie_secrets(file_));
  EXPECT_FALSE(keeper_.tick(now_ + 10 * kDay));
  write("445536bcd2513298075a5d379663c962\n");
  keeper_.follow(file_, now_);
  EXPECT_EQ(keeper_.secrets(), *read_cookie_secrets(file_));
}

TEST_F(CookieSecretKeeperTest, KeepsWhatItHasWhenTheFileIsNoGood) {
  const CookieSecrets random = keeper_.secrets();
  keeper_.follow(file_, now_);
  EXPECT_EQ(keeper_.secrets(), random) << "it is missing";
  EXPECT_TRUE(keeper_.tick(now_ + kDay)) << "random ones age";
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n");
  keeper_.follow(file_, now_);
  const CookieSecrets shared = keeper_.secrets();
  write("e5e973e5");
  keeper_.follow(file_, now_);
  EXPECT_EQ(keeper_.secrets(), shared);
  EXPECT_FALSE(keeper_.tick(now_ + 10 * kDay));
}

TEST_F(CookieSecretKeeperTest, GoesBackToRandomOnesAndAcceptsThoseOfTheFile) {
  write("e5e973e5a6b2a43f48e7dc849e37bfcf\n");
  keeper_.follow(file_, now_);
  const CookieSecret shared = keeper_.secrets().current;
  keeper_.follow("", now_ + 1h);
  const CookieSecrets random = keeper_.secrets();
  EXPECT_NE(random.current, shared);
  EXPECT_EQ(random.other, shared);
  keeper_.follow("", now_ + 2h);
  EXPECT_EQ(keeper_.secrets(), random) << "a reload changes nothing";
  EXPECT_TRUE(keeper_.tick(now_ + 1h + kDay));
}

}  // namespace
}  // namespace meshdns::dnsd
