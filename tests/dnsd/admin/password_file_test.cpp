// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/password_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

const std::string kBcrypt = "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";
const std::string kSha512 =
    "$6$saltsalt$CYKCUk3wfgAfOLU1N7LBdAOcnz7MHa8PPC6Qvzg2SE3emUjQnShp9I47xqbIijxhGRW/"
    "PXlgS02HgDVtAuivQ/";

TEST(PasswordFileTest, AdmitsEachUserWithItsOwnPassword) {
  const auto file =
      PasswordFile::parse("# two\n\nprometheus:" + kBcrypt + "\r\n  other:" + kSha512);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->admits({"prometheus", "correct horse"}));
  EXPECT_TRUE(file->admits({"other", "battery staple"}));
  EXPECT_FALSE(file->admits({"other", "correct horse"}));
  EXPECT_FALSE(file->admits({"prometheus", ""}));
  EXPECT_FALSE(file->admits({"", "correct horse"}));
  EXPECT_FALSE(file->admits({"nobody", "correct horse"}));
  EXPECT_FALSE(file->admits({"prometheus", std::string(100'000, 'x')}));
}

TEST(PasswordFileTest, SaysTheLineThatCannotBeUsed) {
  const struct {
    std::string text;
    std::string complaint;
  } cases[] = {
      {"", "has no names"},
      {"# nobody\n", "has no names"},
      {"\nprometheus\n", "line 2: is not NAME:HASH"},
      {":" + kBcrypt, "line 1: is not NAME:HASH"},
      {"a:secret", "line 1: the hash is neither bcrypt nor SHA-512 crypt"},
      {"a:$apr1$xxxxxxxx$xxxxxxxxxxxxxxxxxxxxxx", "line 1: the hash is neither bcrypt"},
      {"a:" + kBcrypt.substr(0, 30), "line 1: the hash is neither bcrypt"},
      {"a:$2y$15" + kBcrypt.substr(6), "line 1: the cost of the hash is higher than 14"},
      {"a:$6$rounds=100001$salt$x", "line 1: the hash has more than 100000 rounds"},
      {"a:" + kBcrypt + "\na:" + kBcrypt, "line 2: the name occurs twice"},
  };
  for (const auto& [text, complaint] : cases) {
    const auto file = PasswordFile::parse(text);
    ASSERT_FALSE(file) << text;
    EXPECT_THAT(file.error().message, HasSubstr(complaint));
  }
}

TEST(PasswordFileTest, HasALimit) {
  std::string text;
  for (std::size_t i = 0; i < PasswordFile::kMaxUsers; ++i)
    text += std::to_string(i) + ":" + kBcrypt + "\n";
  EXPECT_TRUE(PasswordFile::parse(text));
  EXPECT_FALSE(PasswordFile::parse(text + "one-more:" + kBcrypt));
}

}  // namespace
}  // namespace meshdns::dnsd
