// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/upstream_follower.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UpstreamFollowerTest : public testing::Test {
 protected:
  ~UpstreamFollowerTest() override { std::filesystem::remove(file_); }
  void write(const std::string& text) { std::ofstream(file_) << text; }
  std::vector<std::string> servers() const {
    std::vector<std::string> list;
    for (const auto& server : follower_.current().servers) list.push_back(server.to_string());
    return list;
  }

  const std::string file_ =
      testing::TempDir() + "upstream_follower_test-" + std::to_string(getpid());
  const std::vector<SocketAddress> listening_ = {*parse_socket_address("127.0.0.1:53")};
  Config config_;
  Log log_{{.level = LogLevel::Off}};
  UpstreamFollower follower_{
      config_, log_, {file_.c_str(), "/nonexistent", "/nonexistent", "/nonexistent"}};
};

TEST_F(UpstreamFollowerTest, KeepsTheServersWhileAResolvConfNamesNone) {
  write("nameserver 192.0.2.1\n");
  follower_.choose(listening_);
  ASSERT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  write("");
  follower_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  write("nameserver 192.0.2.2\n");
  follower_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("192.0.2.2:53"));
}

TEST_F(UpstreamFollowerTest, TakesTheConfigurationsServersInPlaceOfAFilesOnes) {
  write("nameserver 192.0.2.1\n");
  follower_.choose(listening_);
  config_.upstream.servers = {*parse_upstream_server("10.0.0.53")};
  follower_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("10.0.0.53:53"));
}

TEST_F(UpstreamFollowerTest, ForgetsEarlierServersWhenItChoosesAnew) {
  write("nameserver 192.0.2.1\n");
  follower_.choose(listening_);
  write("");
  follower_.choose(listening_);
  EXPECT_THAT(servers(), IsEmpty());
}

}  // namespace
}  // namespace meshdns::dnsd
