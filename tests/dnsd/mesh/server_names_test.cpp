// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/server_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/resolver/forward/fake_upstream.hpp"

namespace meshdns::dnsd {
namespace {

using test::Behaviour;
using test::FakeUpstream;
using testing::ElementsAre;
using testing::IsEmpty;

class ServerNamesTest : public testing::Test {
 protected:
  ServerNamesTest() {
    uv_loop_init(&loop_);
    std::filesystem::create_directory(directory_);
    upstream_ = std::make_unique<FakeUpstream>(&loop_);
    system_.servers = {upstream_->server()};
    system_.timeout = std::chrono::milliseconds(500);
  }
  ~ServerNamesTest() override {
    names_.reset();
    upstream_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
    std::filesystem::remove_all(directory_);
  }

  void follow(const std::vector<std::string>& servers) {
    config_.servers.clear();
    for (const std::string& server : servers)
      config_.servers.push_back(*parse_upstream_server(server));
    if (!names_) names_ = std::make_unique<ServerNames>(registry_, log_, directory_ + "/hosts");
    names_->follow(&loop_, config_, {system_, search_}, directory_ + "/servers",
                   [this] { ++changes_; });
  }
  void restart() {
    names_->close();
    names_.reset();
  }
  std::unique_ptr<registry::NamedServer> use(const std::string& host) {
    return names_->use(host, [this] { ++changes_; });
  }
  static std::vector<std::string> addresses(const registry::NamedServer& server) {
    std::vector<std::string> list;
    for (const IpAddress& address : server.find().addresses) list.push_back(address.to_string());
    return list;
  }
  std::vector<std::string> servers() const {
    UpstreamConfig upstream = config_;
    names_->fill_in(upstream);
    std::vector<std::string> list;
    for (const auto& server : upstream.servers) list.push_back(server.to_string());
    return list;
  }
  void run_until_change() {
    for (const int before = changes_; changes_ == before;) uv_run(&loop_, UV_RUN_ONCE);
  }

  const std::string directory_ =
      testing::TempDir() + "server_names_test-" + std::to_string(getpid());
  uv_loop_t loop_{};
  Log log_{{.level = LogLevel::Off}};
  registry::Registry registry_{{}};
  std::unique_ptr<FakeUpstream> upstream_;
  UpstreamConfig system_;
  std::vector<std::string> search_;
  UpstreamConfig config_;
  std::unique_ptr<ServerNames> names_;
  int changes_ = 0;
};

TEST_F(ServerNamesTest, AServerIsLeftOutUntilItsNameIsKnown) {
  follow({"10.0.0.53", "dns.example.org:5353", "tls://dot.example.org"});
  EXPECT_THAT(servers(), ElementsAre("10.0.0.53:53"));
  while (servers().size() < 3) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_THAT(servers(),
              ElementsAre("10.0.0.53:53", "192.0.2.1:5353", "tls://192.0.2.1:853#dot.example.org"));
  names_->close();
}

TEST_F(ServerNamesTest, TheHostsFileComesFirst) {
  std::ofstream(directory_ + "/hosts") << "10.1.1.1 dns.example.org\n";
  follow({"dns.example.org"});
  run_until_change();
  EXPECT_THAT(servers(), ElementsAre("10.1.1.1:53"));
  EXPECT_THAT(upstream_->received, IsEmpty());
  names_->close();
}

TEST_F(ServerNamesTest, TheLastGoodAddressesStayOverARestart) {
  follow({"dns.example.org"});
  run_until_change();
  restart();
  upstream_->behave(Behaviour::ServFail);
  follow({"dns.example.org"});
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  const std::size_t before = upstream_->received.size();
  while (upstream_->received.size() == before) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  names_->close();
}

TEST_F(ServerNamesTest, NamesOfTheClusterAreTheRegistrysOnceItHasThem) {
  follow({"dns.kube.svc.cluster.local"});
  run_until_change();
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  registry::KubeService service;
  service.meta.name = "dns";
  service.meta.ns = "kube";
  service.cluster_ips = {*IpAddress::parse("10.96.0.10")};
  service.ports = {{53, 0, "dns", "UDP"}};
  registry::Transaction transaction;
  transaction.upsert(service, "test.yaml", 1);
  registry_.commit(std::move(transaction));
  names_->recheck();
  run_until_change();
  EXPECT_THAT(servers(), ElementsAre("10.96.0.10:53"));
  names_->close();
}

TEST_F(ServerNamesTest, SourcesUseNamesAsUpstreamServersDo) {
  follow({});
  const auto server = use("api.example.org");
  EXPECT_TRUE(server->find().is_awaited());
  run_until_change();
  EXPECT_THAT(addresses(*server), ElementsAre("192.0.2.1"));
  EXPECT_THAT(servers(), IsEmpty());
  // A reload with other upstream servers keeps it.
  follow({"dns.example.org"});
  EXPECT_THAT(addresses(*server), ElementsAre("192.0.2.1"));
  run_until_change();
  EXPECT_THAT(servers(), ElementsAre("192.0.2.1:53"));
  EXPECT_THAT(addresses(*server), ElementsAre("192.0.2.1"));
  names_->close();
}

TEST_F(ServerNamesTest, ANameThatCannotBeLookedUpSaysWhyUntilItCan) {
  upstream_->behave(Behaviour::ServFail);
  follow({});
  const auto server = use("api.example.org");
  run_until_change();
  EXPECT_THAT(addresses(*server), IsEmpty());
  EXPECT_FALSE(server->find().reason.empty());
  upstream_->behave(Behaviour::Answer);
  run_until_change();
  EXPECT_THAT(addresses(*server), ElementsAre("192.0.2.1"));
  EXPECT_EQ(server->find().reason, "");
  names_->close();
}

TEST_F(ServerNamesTest, AFullNameComesBeforeThoseOfTheSearchList) {
  search_ = {"corp.example.org"};
  upstream_->behave("istiod.example.org", Behaviour::NxDomain);
  follow({});
  const auto missing = use("istiod.example.org");
  while (addresses(*missing).empty()) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_GE(upstream_->count("istiod.example.org.corp.example.org"), 1u);
  const auto full = use("api.example.org");
  while (addresses(*full).empty()) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_EQ(upstream_->count("api.example.org.corp.example.org"), 0u);
  names_->close();
}

TEST_F(ServerNamesTest, SpecialNamesAreNotAskedFor) {
  follow({});
  const auto server = use("localhost");
  run_until_change();
  EXPECT_THAT(addresses(*server), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(upstream_->received, IsEmpty());
  names_->close();
}

TEST_F(ServerNamesTest, AUseMayEndAndBeginOthersInItsCall) {
  follow({});
  std::unique_ptr<registry::NamedServer> next;
  std::unique_ptr<registry::NamedServer> first;
  first = names_->use("api.example.org", [&] {
    next = use("next.example.org");
    first.reset();
  });
  run_until_change();
  EXPECT_FALSE(first);
  EXPECT_THAT(addresses(*next), ElementsAre("192.0.2.1"));
  next.reset();
  names_->close();
}

// Files of versions that saved only the names of upstream servers.
TEST_F(ServerNamesTest, ReadsTheFileOfTheVersionBefore) {
  std::ofstream(directory_ + "/servers") << "dns.example.org 192.0.2.53 2001:db8::53\n";
  upstream_->behave(Behaviour::ServFail);
  follow({"dns.example.org"});
  EXPECT_THAT(servers(), ElementsAre("192.0.2.53:53", "[2001:db8::53]:53"));
  const auto server = use("dns.example.org");
  EXPECT_THAT(addresses(*server), ElementsAre("192.0.2.53", "2001:db8::53"));
  names_->close();
}

TEST_F(ServerNamesTest, NamesThatAreNotConfiguredAnyMoreAreForgotten) {
  follow({"dns.example.org"});
  run_until_change();
  follow({"10.0.0.53"});
  EXPECT_THAT(servers(), ElementsAre("10.0.0.53:53"));
  EXPECT_FALSE(names_->has_any());
}

}  // namespace
}  // namespace meshdns::dnsd
