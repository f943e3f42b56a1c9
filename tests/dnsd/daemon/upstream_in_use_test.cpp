// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/upstream_in_use.hpp"

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

class UpstreamInUseTest : public testing::Test {
 protected:
  ~UpstreamInUseTest() override { std::filesystem::remove(file_); }
  void write(const std::string& text) { std::ofstream(file_) << text; }
  std::vector<std::string> servers() const {
    std::vector<std::string> list;
    for (const auto& server : upstream_.current().servers) list.push_back(server.to_string());
    return list;
  }

  const std::string file_ = testing::TempDir() + "upstream_in_use_test-" + std::to_string(getpid());
  const std::vector<SocketAddress> listening_ = {*parse_socket_address("127.0.0.1:53")};
  Config config_;
  Log log_{{.level = LogLevel::Off}};
  UpstreamInUse upstream_{
      config_, log_, {file_.c_str(), "/nonexistent", "/nonexistent", "/nonexistent"}};
};

TEST_F(UpstreamInUseTest, KeepsTheServersWhileAResolvConfNamesNone) {
  write("nameserver 192.0.2.1\n");
  upstream_.choose(listening_);
  ASSERT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  write("");
  upstream_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  write("nameserver 192.0.2.2\n");
  upstream_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("192.0.2.2:53"));
}

TEST_F(UpstreamInUseTest, TakesTheConfigurationsServersInPlaceOfAFilesOnes) {
  write("nameserver 192.0.2.1\n");
  upstream_.choose(listening_);
  config_.upstream.servers = {*parse_upstream_server("10.0.0.53")};
  upstream_.follow(listening_);
  EXPECT_THAT(servers(), ElementsAre("10.0.0.53:53"));
}

TEST_F(UpstreamInUseTest, ForgetsEarlierServersWhenItChoosesAnew) {
  write("nameserver 192.0.2.1\n");
  upstream_.choose(listening_);
  write("");
  upstream_.choose(listening_);
  EXPECT_THAT(servers(), IsEmpty());
}

}  // namespace
}  // namespace meshdns::dnsd
