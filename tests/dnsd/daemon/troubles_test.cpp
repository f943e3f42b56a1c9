// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace meshdns::dnsd {
namespace {

using registry::Severity;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

struct Server {
  const char* name;
  Health health;
  bool looped;
  const char* failing_with;
  bool is_useless;
};

// A server that is in doubt may answer yet, whatever it has answered before.
constexpr Server kServers[] = {
    {"192.0.2.1:53", Health::Up, false, "", false},
    {"192.0.2.2:53", Health::Doubtful, false, "", false},
    {"192.0.2.3:53", Health::Down, false, "", true},
    {"192.0.2.4:53", Health::Up, false, "SERVFAIL", true},
    {"192.0.2.5:53", Health::Doubtful, false, "REFUSED", false},
    {"192.0.2.6:53", Health::Down, false, "SERVFAIL", true},
    {"192.0.2.7:53", Health::Up, true, "", true},
    {"192.0.2.8:53", Health::Doubtful, true, "", true},
};

std::vector<UpstreamStatus> statuses() {
  std::vector<UpstreamStatus> all;
  for (const Server& server : kServers) {
    UpstreamStatus status;
    status.name = server.name;
    status.health = server.health;
    status.looped = server.looped;
    status.failing_with = server.failing_with;
    all.push_back(status);
  }
  return all;
}

std::vector<std::string> reasons(const std::vector<Problem>& problems) {
  std::vector<std::string> reasons;
  for (const Problem& problem : problems) {
    EXPECT_FALSE(problem.effect.empty()) << problem.reason;
    reasons.push_back(problem.reason);
  }
  return reasons;
}

UpstreamServer server(std::string_view text) { return *parse_upstream_server(text); }

TEST(UpstreamTroublesTest, AreZonesOfUselessServersOnly) {
  for (const Server& one : kServers)
    for (const Server& other : kServers) {
      SCOPED_TRACE(std::string(one.name) + " and " + other.name);
      const bool has_trouble = one.is_useless && other.is_useless;
      UpstreamConfig config;
      config.servers = {server(one.name), server(other.name)};
      const auto troubles = reasons(upstream_troubles(config, statuses()));
      if (has_trouble)
        EXPECT_THAT(troubles, ElementsAre(StartsWith("upstream: no server answers: ")));
      else
        EXPECT_THAT(troubles, IsEmpty());
      config.servers = {server(kServers[0].name)};
      config.zones["example.org"] = {server(one.name), server(other.name)};
      EXPECT_EQ(upstream_troubles(config, statuses()).size(), has_trouble ? 1U : 0U);
    }
}

TEST(UpstreamTroublesTest, TellTheReasonOfEachServer) {
  auto all = statuses();
  all[2].last_error = "no reply";
  UpstreamConfig config;
  config.zones[""] = {server("192.0.2.3"), server("192.0.2.4"), server("192.0.2.7")};
  EXPECT_THAT(reasons(upstream_troubles(config, all)),
              ElementsAre("upstream.zones .: no server answers: 192.0.2.3:53 is down: no reply; "
                          "192.0.2.4:53 answers nothing but SERVFAIL; "
                          "192.0.2.7:53 sends our own queries back"));
}

TEST(UpstreamTroublesTest, SayWhichNamesAreLost) {
  UpstreamConfig config;
  config.servers = {server("192.0.2.3")};
  config.zones["corp.example"] = {server("192.0.2.3")};
  const auto troubles = upstream_troubles(config, statuses());
  ASSERT_EQ(troubles.size(), 2U);
  EXPECT_THAT(
      troubles[0].effect,
      StartsWith("names outside the mesh that are in no zone of upstream.zones are not answered"));
  EXPECT_THAT(troubles[1].effect, StartsWith("names below corp.example are not answered"));
  config.zones["b.corp.example"] = {server("192.0.2.1")};
  EXPECT_THAT(
      upstream_troubles(config, statuses())[1].effect,
      StartsWith("names below corp.example that are in no other zone of upstream.zones are"));
}

TEST(UpstreamTroublesTest, AreNoServersUnlessAZoneHasAllNames) {
  UpstreamConfig config;
  EXPECT_THAT(reasons(upstream_troubles(config, {})),
              ElementsAre(StartsWith("upstream: neither ")));
  config.zones["example.org"] = {server("192.0.2.1")};
  EXPECT_THAT(reasons(upstream_troubles(config, {})),
              ElementsAre(StartsWith("upstream: neither ")));
  config.zones[""] = {server("192.0.2.1")};
  EXPECT_THAT(reasons(upstream_troubles(config, {})), IsEmpty());
}

TEST(UpstreamTroublesTest, AreNotTheServersThatWereNeverAsked) {
  UpstreamConfig config;
  config.servers = {server("198.51.100.1")};
  EXPECT_THAT(reasons(upstream_troubles(config, statuses())), IsEmpty());
}

// Each file alone, missing and there.
TEST(FileTroublesTest, AreFilesThatCannotBeRead) {
  const std::string missing = testing::TempDir() + "troubles_test-missing";
  const std::string there = "/proc/self/status";
  const struct {
    const char* key;
    std::string& (*file)(Config&);
  } files[] = {
      {"hosts.file", [](Config& c) -> std::string& { return c.hosts.file; }},
      {"server.cookies.secret_file",
       [](Config& c) -> std::string& { return c.server.cookies.secret_file; }},
      {"admin.token_file", [](Config& c) -> std::string& { return c.admin.token_file; }},
      {"upstream.tls.ca_file", [](Config& c) -> std::string& { return c.upstream.tls_ca_file; }},
  };
  for (const auto& [key, file] : files) {
    Config config;
    file(config) = there;
    EXPECT_THAT(reasons(file_troubles(config, there, "/")), IsEmpty()) << key;
    file(config) = missing;
    EXPECT_THAT(reasons(file_troubles(config, there, "/")),
                ElementsAre(key + (": cannot read " + missing) + ": No such file or directory"));
  }
  Config config;
  config.server.watch_config = false;
  EXPECT_THAT(reasons(file_troubles(config, missing, "")), IsEmpty()) << "nobody looks at it";
  config.server.watch_config = true;
  EXPECT_THAT(reasons(file_troubles(config, missing, missing)),
              ElementsAre("config: cannot read " + missing + ": No such file or directory",
                          "state_dir: cannot write to " + missing + ": No such file or directory"));
}

TEST(RefusedObjectsTest, AreThoseWithErrors) {
  const auto finding = [](Severity severity, std::string message) {
    registry::Finding found;
    found.severity = severity;
    found.message = std::move(message);
    return found;
  };
  std::map<std::string, std::vector<registry::Finding>> findings;
  EXPECT_EQ(refused_objects(findings), "");
  findings["a.yaml"] = {finding(Severity::Warning, "odd"), finding(Severity::Note, "by the way")};
  EXPECT_EQ(refused_objects(findings), "");
  findings["b.yaml"] = {finding(Severity::Note, "by the way"), finding(Severity::Error, "bad")};
  EXPECT_EQ(refused_objects(findings),
            "1 error in resources (/registry/findings); the first: error: bad");
  findings["c.yaml"] = {finding(Severity::Error, "worse"), finding(Severity::Warning, "odd")};
  EXPECT_EQ(refused_objects(findings),
            "2 errors in resources (/registry/findings); the first: error: bad");
}

}  // namespace
}  // namespace meshdns::dnsd
