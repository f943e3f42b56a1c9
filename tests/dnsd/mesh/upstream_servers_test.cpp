// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/upstream_servers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Files as on a machine with systemd-resolved and NetworkManager, of which any may be missing.
class UpstreamServersTest : public testing::Test {
 protected:
  UpstreamServersTest() {
    std::string name = (std::filesystem::temp_directory_path() / "meshdns-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    for (std::size_t i = 0; i < paths_.size(); ++i)
      paths_[i] = (directory_ / std::to_string(i)).string();
  }
  ~UpstreamServersTest() override { std::filesystem::remove_all(directory_); }

  void write(std::size_t index, const std::string& text) { std::ofstream(paths_[index]) << text; }
  // We listen on 127.0.0.1:53.
  std::vector<std::string> servers(const Config& config = {}) {
    const std::vector<SocketAddress> listening = {*parse_socket_address("127.0.0.1:53")};
    const std::array<const char*, 4> paths = {paths_[0].c_str(), paths_[1].c_str(),
                                              paths_[2].c_str(), paths_[3].c_str()};
    warning_.clear();
    std::vector<std::string> list;
    for (const auto& server : effective_upstream(config, listening, &warning_, paths).servers)
      list.push_back(server.to_string());
    return list;
  }

  std::filesystem::path directory_;
  std::array<std::string, 4> paths_;
  std::string warning_;
};

TEST_F(UpstreamServersTest, TakesTheConfigurationsServersAndReadsNoFile) {
  Config config;
  config.upstream.servers = {*parse_upstream_server("10.0.0.53")};
  write(0, "nameserver 192.0.2.1\n");
  EXPECT_THAT(servers(config), ElementsAre("10.0.0.53:53"));
}

TEST_F(UpstreamServersTest, LeavesOutOurselves) {
  write(0, "nameserver 127.0.0.1\nnameserver 192.0.2.1\n");
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  EXPECT_EQ(warning_, "");
}

// systemd-resolved asks us for some names, and we must not ask it for the others.
TEST_F(UpstreamServersTest, PrefersWhatResolvedAsksToResolvedItself) {
  write(0, "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n");
  write(1, "nameserver 127.0.0.1\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n");
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53", "192.0.2.2:53"));
}

TEST_F(UpstreamServersTest, AsksResolvedWhenNothingElseIsKnown) {
  write(0, "nameserver 127.0.0.53\n");
  EXPECT_THAT(servers(), ElementsAre("127.0.0.53:53"));
  EXPECT_EQ(warning_, "");
}

// Its drop-in names us with a port, which its file cannot have.
TEST_F(UpstreamServersTest, DoesNotAskResolvedWhichHasNobodyElseToAsk) {
  write(0, "nameserver 127.0.0.53\n");
  write(1, "# No DNS servers known.\nsearch .\n");
  EXPECT_THAT(servers(), IsEmpty());
  EXPECT_THAT(warning_, HasSubstr("/1 names no server"));
  write(1, "nameserver 127.0.0.1\n");
  EXPECT_THAT(servers(), IsEmpty());
  EXPECT_THAT(warning_, HasSubstr("/1 names only this server"));
  write(3, "nameserver 192.0.2.3\n");
  EXPECT_THAT(servers(), ElementsAre("192.0.2.3:53"));
}

TEST_F(UpstreamServersTest, FindsWhatWasPutAsideForUs) {
  write(0, "nameserver 127.0.0.1\n");
  write(3, "nameserver 192.0.2.3\n");
  EXPECT_THAT(servers(), ElementsAre("192.0.2.3:53"));
  EXPECT_EQ(warning_, "");
}

// They are newer than what was put aside at our start.
TEST_F(UpstreamServersTest, PrefersTheServersOfNetworkManagerToThosePutAside) {
  write(0, "nameserver 127.0.0.1\n");
  write(2, "nameserver 192.0.2.2\n");
  write(3, "nameserver 192.0.2.3\n");
  EXPECT_THAT(servers(), ElementsAre("192.0.2.2:53"));
}

std::vector<std::string> texts(const std::vector<UpstreamServer>& servers) {
  std::vector<std::string> list;
  for (const auto& server : servers) list.push_back(server.to_string());
  return list;
}

TEST(LinkRoutesTest, SendDomainsOfALinkToItsServers) {
  const std::vector<SocketAddress> listening = {*parse_socket_address("127.0.0.1:53")};
  UpstreamConfig upstream;
  upstream.servers = {*parse_upstream_server("192.0.2.1"), *parse_upstream_server("10.8.0.1")};
  upstream.zones["own.example"] = {*parse_upstream_server("192.0.2.9")};
  const LinkRoutes routes{{{"corp.example", {*parse_socket_address("10.8.0.1:53")}},
                           {"loop.example", {listening[0]}},
                           {"own.example", {*parse_socket_address("10.8.0.1:53")}}},
                          {*parse_socket_address("10.8.0.1:53")}};
  add_link_routes(upstream, routes, listening);
  EXPECT_THAT(texts(upstream.servers), ElementsAre("192.0.2.1:53"));
  EXPECT_THAT(texts(upstream.zones["corp.example"]), ElementsAre("10.8.0.1:53"));
  EXPECT_THAT(texts(upstream.zones["own.example"]), ElementsAre("192.0.2.9:53"));
  EXPECT_FALSE(upstream.zones.contains("loop.example"));
  EXPECT_THAT(upstream.link_zones, ElementsAre("corp.example"));
}

TEST(LinkRoutesTest, LeaveAServerWhereThereIsNoOther) {
  UpstreamConfig upstream;
  upstream.servers = {*parse_upstream_server("10.8.0.1")};
  add_link_routes(upstream, {{}, {*parse_socket_address("10.8.0.1:53")}}, {});
  EXPECT_THAT(texts(upstream.servers), ElementsAre("10.8.0.1:53"));
}

TEST_F(UpstreamServersTest, SaysWhyNobodyCanBeAsked) {
  EXPECT_THAT(servers(), IsEmpty());
  EXPECT_THAT(warning_, HasSubstr(paths_[0]));
  write(0, "search example.org\n");
  EXPECT_THAT(servers(), IsEmpty());
  EXPECT_THAT(warning_, HasSubstr("/0 names no server"));
  write(0, "nameserver 127.0.0.1\n");
  EXPECT_THAT(servers(), IsEmpty());
  EXPECT_THAT(warning_, HasSubstr("/0 names only this server"));
}

}  // namespace
}  // namespace meshdns::dnsd
