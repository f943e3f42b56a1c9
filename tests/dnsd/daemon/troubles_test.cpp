// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

class SlowZonesTest : public testing::Test {
 protected:
  using Time = SlowZones::Time;

  // The server gives so many more answers of this bucket: 11 is up to 512 ms, 12 up to 1,024 ms.
  void answer(const std::string& name, std::size_t bucket, std::uint64_t count) {
    auto found = std::ranges::find(statuses_, name, &UpstreamStatus::name);
    if (found == statuses_.end()) {
      statuses_.emplace_back().name = name;
      found = statuses_.end() - 1;
    }
    found->latency[bucket] += count;
  }
  // Looks every second for so long; the labels of zones that began and ended to be slow.
  std::vector<std::string> look(std::chrono::seconds time = std::chrono::seconds(1)) {
    std::vector<std::string> told;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += std::chrono::seconds(1);
      if (latency_.is_due(now_)) latency_.observe(statuses_, now_);
      const auto change = zones_.observe(config_, statuses_, latency_, now_);
      for (const Problem& problem : change.begun) told.push_back(problem.reason);
      for (const std::string& zone : change.ended) told.push_back(zone + " has ended");
    }
    return told;
  }
  std::vector<std::string> troubles() const { return reasons(zones_.troubles()); }

  UpstreamConfig config_;
  std::vector<UpstreamStatus> statuses_;
  LatencyWindow latency_;
  SlowZones zones_;
  Time now_{std::chrono::hours(1)};
};

TEST_F(SlowZonesTest, HaveHalfOfTheirAnswersLate) {
  config_.servers = {server("192.0.2.1"), server("192.0.2.2")};
  config_.zones["corp.example"] = {server("192.0.2.3")};
  answer("192.0.2.1:53", 13, 9);
  EXPECT_THAT(look(), IsEmpty()) << "few answers prove nothing";
  answer("192.0.2.3:53", 11, 1'000);
  EXPECT_THAT(look(), IsEmpty()) << "512 ms is not late";
  answer("192.0.2.1:53", 13, 10);
  EXPECT_THAT(look(), ElementsAre("upstream: slow: half of the answers take more than 1 s: "
                                  "192.0.2.1:53"));
  EXPECT_THAT(zones_.troubles().front().effect,
              "names outside the mesh that are in no zone of upstream.zones are answered slowly, "
              "unless they are in the cache");
  EXPECT_THAT(look(), IsEmpty()) << "it is told once";
  EXPECT_EQ(troubles().size(), 1U);
}

TEST_F(SlowZonesTest, AreNotThoseThatAskAnotherServerMostly) {
  config_.servers = {server("192.0.2.1"), server("192.0.2.2")};
  answer("192.0.2.1:53", 16, 400);
  answer("192.0.2.2:53", 3, 500);
  EXPECT_THAT(look(), IsEmpty());
  answer("192.0.2.1:53", 12, 200);
  EXPECT_EQ(look().size(), 1U);
}

TEST_F(SlowZonesTest, EndAMinuteAfterTheyAreQuick) {
  config_.servers = {server("192.0.2.1")};
  answer("192.0.2.1:53", 12, 10);
  EXPECT_EQ(look().size(), 1U);
  // In no time of five minutes it is quick: it is told neither of an end nor of another beginning.
  for (int i = 0; i < 30; ++i) {
    answer("192.0.2.1:53", i % 2 == 0 || i > 15 ? 11 : 12, 10);
    EXPECT_THAT(look(std::chrono::seconds(10)), IsEmpty());
  }
  EXPECT_THAT(troubles(), ElementsAre("upstream: slow: half of the answers take more than 0.5 s: "
                                      "192.0.2.1:53"));
  answer("192.0.2.1:53", 10, 1'000);
  EXPECT_THAT(look(std::chrono::seconds(59)), IsEmpty());
  EXPECT_THAT(look(std::chrono::seconds(2)), ElementsAre("upstream has ended"));
  EXPECT_THAT(troubles(), IsEmpty());
}

TEST_F(SlowZonesTest, EndWithTheirQueriesAndWithTheirZone) {
  config_.zones["corp.example"] = {server("192.0.2.1")};
  answer("192.0.2.1:53", 12, 10);
  EXPECT_EQ(look().size(), 1U);
  EXPECT_THAT(look(std::chrono::seconds(119)),
              ElementsAre("upstream.zones corp.example has ended"));
  answer("192.0.2.1:53", 12, 10);
  EXPECT_EQ(look().size(), 1U);
  config_.zones.clear();
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_THAT(troubles(), IsEmpty());
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
