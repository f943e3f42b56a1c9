// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/password_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;

const Credentials kRight{"prometheus", "correct horse"};
const Credentials kWrong{"prometheus", "wrong"};

class PasswordGateTest : public testing::Test {
 protected:
  PasswordGateTest() {
    uv_loop_init(&loop_);
    gate_.set_passwords(correct_horse());
  }
  ~PasswordGateTest() override {
    gate_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  static std::shared_ptr<const PasswordFile> correct_horse() {
    return std::make_shared<const PasswordFile>(*PasswordFile::parse(
        "prometheus:$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"));
  }
  bool check(const Credentials& credentials) {
    return gate_.check(credentials, [this](bool is_right) { verdicts_.push_back(is_right); });
  }

  uv_loop_t loop_{};
  PasswordGate gate_{&loop_};
  std::vector<bool> verdicts_;
};

TEST_F(PasswordGateTest, RemembersOnlyWhatWasRight) {
  EXPECT_TRUE(gate_.needs_password());
  EXPECT_TRUE(check(kRight));
  EXPECT_TRUE(check(kWrong));
  EXPECT_THAT(verdicts_, ElementsAre());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_THAT(verdicts_, ElementsAre(true, false));
  EXPECT_TRUE(gate_.remembers(kRight));
  EXPECT_FALSE(gate_.remembers(kWrong));
}

TEST_F(PasswordGateTest, ForgetsWithNewPasswords) {
  check(kRight);
  uv_run(&loop_, UV_RUN_DEFAULT);
  gate_.set_passwords(correct_horse());
  EXPECT_FALSE(gate_.remembers(kRight));
}

TEST_F(PasswordGateTest, ChecksAgainWhenThePasswordsChangeMeanwhile) {
  check(kRight);
  gate_.set_passwords(std::make_shared<const PasswordFile>(
      *PasswordFile::parse("other:$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e")));
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_THAT(verdicts_, ElementsAre(false));
}

TEST_F(PasswordGateTest, LetsOnlySomeWait) {
  for (std::size_t i = 0; i < PasswordGate::kMaxWaiting; ++i) EXPECT_TRUE(check(kWrong));
  EXPECT_FALSE(check(kRight));
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(verdicts_.size(), PasswordGate::kMaxWaiting);
  EXPECT_TRUE(check(kRight));
}

TEST_F(PasswordGateTest, CallsNobodyAfterItsEnd) {
  check(kRight);
  check(kWrong);
  gate_.close();
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_THAT(verdicts_, ElementsAre());
}

}  // namespace
}  // namespace meshdns::dnsd
