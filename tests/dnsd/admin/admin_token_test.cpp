// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_token.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class AdminTokenTest : public testing::Test {
 protected:
  AdminTokenTest() {
    std::string name = (std::filesystem::temp_directory_path() / "meshdns-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~AdminTokenTest() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& text) const {
    const auto path = directory_ / "token";
    std::ofstream(path) << text;
    return path.string();
  }
  // The status of a change over TCP with that header; 200 = allowed.
  static unsigned status(const std::string& authorization, const std::string& token_file) {
    HttpRequest request;
    request.authorization = authorization;
    const auto refused = refuse_change(request, token_file);
    return refused ? refused->status : 200;
  }

  std::filesystem::path directory_;
};

TEST_F(AdminTokenTest, RefusesChangesOverTcpWithoutAToken) {
  HttpRequest request;
  const auto refused = refuse_change(request, "");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403U);
  EXPECT_THAT(refused->body, HasSubstr("admin.token_file"));
  EXPECT_EQ(status(std::string("Bearer ") + kToken, ""), 403U);
  EXPECT_EQ(status("Bearer ", ""), 403U);
}

TEST_F(AdminTokenTest, AllowsChangesOverTheUnixSocket) {
  HttpRequest request;
  request.is_local = true;
  EXPECT_FALSE(refuse_change(request, ""));
  EXPECT_FALSE(refuse_change(request, "/no/such/file"));
}

TEST_F(AdminTokenTest, AllowsTheTokenAndNothingElse) {
  const std::string path = file(std::string("  ") + kToken + " \nsecond line\n");
  const std::string token = kToken;
  EXPECT_EQ(status("Bearer " + token, path), 200U);
  EXPECT_EQ(status("bearer   " + token + " ", path), 200U);
  for (const std::string& wrong :
       {std::string(), std::string("Bearer"), std::string("Bearer "), token, "Basic " + token,
        "Bearer " + token + "0", "Bearer " + token.substr(1), std::string("Bearer  second line"),
        "Bearer " + token + " " + token, std::string("Bearer ") + std::string(8'000, 'x')})
    EXPECT_EQ(status(wrong, path), 401U) << wrong.substr(0, 60);
}

TEST_F(AdminTokenTest, RefusesAllWhenTheFileIsNoGood) {
  EXPECT_EQ(status("Bearer ", (directory_ / "missing").string()), 403U);
  for (const char* text :
       {"", "\n", "short", "has a space in the token", "tab\tin the token 0123456789"})
    EXPECT_EQ(status(std::string("Bearer ") + text, file(text)), 403U) << text;
}

TEST_F(AdminTokenTest, FollowsTheFile) {
  const std::string path = file(kToken);
  EXPECT_EQ(status(std::string("Bearer ") + kToken, path), 200U);
  file("another token of the right size"  // has spaces
  );
  EXPECT_EQ(status(std::string("Bearer ") + kToken, path), 403U);
  file("ffffffffffffffffffffffffffffffff");
  EXPECT_EQ(status(std::string("Bearer ") + kToken, path), 401U);
  EXPECT_EQ(status("Bearer ffffffffffffffffffffffffffffffff", path), 200U);
}

}  // namespace
}  // namespace meshdns::dnsd
