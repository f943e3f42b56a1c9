// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/answer_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "registry/registry.hpp"

namespace meshdns::dnsd {
namespace {

using registry::ServiceEntry;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kStart = 1'795'000'000;

ServiceEntry entry_of(const std::string& name, const std::string& host,
                      const std::string& address) {
  ServiceEntry entry;
  entry.meta.name = name;
  entry.meta.ns = "shop";
  entry.hosts = {host};
  if (!address.empty()) entry.addresses = {IpPrefix::parse(address).value()};
  return entry;
}

// A history that has begun.  Each second has one commit.
class AnswerHistoryTest : public testing::Test {
 protected:
  AnswerHistoryTest() {
    put(entry_of("api", "api.example.org", "10.0.0.7"));
    history_.begin(*registry_.current(), now_);
    handler_ =
        registry_.controller().attach([this](const registry::Changes& changes,
                                             const registry::Snapshot&) { history_.add(changes); });
  }
  void put(const ServiceEntry& entry) {
    registry::Transaction transaction;
    transaction.upsert(entry, "shop.yaml", 14);
    commit(std::move(transaction));
  }
  void remove(const ServiceEntry& entry) {
    registry::Transaction transaction;
    transaction.remove({registry::Kind::ServiceEntry, "", entry.meta.ns, entry.meta.name},
                       "shop.yaml");
    commit(std::move(transaction));
  }
  void resolve(const std::vector<std::string>& addresses, registry::ResolvedName::State state) {
    registry::ResolvedName name{"db.example.net", state, {}};
    for (const auto& address : addresses) name.addresses.push_back(*IpAddress::parse(address));
    registry::Transaction transaction;
    transaction.set_resolved("shop", std::move(name));
    commit(std::move(transaction));
  }
  void commit(registry::Transaction&& transaction) {
    registry_.commit(std::move(transaction));
    history_.look(*registry_.current(), ++now_);
  }
  // "different api.example.org: from 10.0.0.7 to 10.0.0.8; ServiceEntry shop/api (shop.yaml:14)"
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const AnswerEvent& event : history_.events())
      lines.push_back(std::string(to_string(event.kind)) + " " + event.name + ": " +
                      answers_text(event) + "; " + event.object + " (" + event.source + ")");
    return lines;
  }

  registry::Registry registry_{registry::MeshSettings{}};
  std::shared_ptr<const registry::Controller::Handler> handler_;
  AnswerHistory history_;
  std::int64_t now_ = kStart;
};

TEST_F(AnswerHistoryTest, HasNamesThatAppearVanishAndAreAnsweredDifferently) {
  put(entry_of("api", "api.example.org", "10.0.0.8"));
  put(entry_of("web", "*.example.org", "10.0.0.9"));
  remove(entry_of("api", "", ""));
  EXPECT_THAT(
      lines(),
      ElementsAre("different api.example.org: from 10.0.0.7 to 10.0.0.8; ServiceEntry shop/api "
                  "(shop.yaml:14)",
                  "appeared *.example.org: 10.0.0.9; ServiceEntry shop/web (shop.yaml:14)",
                  "vanished api.example.org: 10.0.0.8; ServiceEntry shop/api (shop.yaml:14)"));
  EXPECT_EQ(history_.events().front().unix_seconds, kStart + 2);
  EXPECT_EQ(history_.events().front().ns, "shop");
  EXPECT_EQ(history_.counts().all(), 3U);
  ASSERT_NE(history_.last_of("api.example.org"), nullptr);
  EXPECT_EQ(history_.last_of("api.example.org")->kind, AnswerEvent::Kind::Vanished);
  EXPECT_EQ(history_.last_of("other.example.org"), nullptr);
}

TEST_F(AnswerHistoryTest, LeavesOutChangesThatNoAnswerShows) {
  ServiceEntry entry = entry_of("api", "api.example.org", "10.0.0.7");
  entry.meta.labels = {{"team", "shop"}};
  put(entry);
  registry::MeshSettings settings;
  settings.root_namespace = "other";
  registry_.set_settings(settings);
  history_.look(*registry_.current(), ++now_);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(AnswerHistoryTest, HasChangesOfVisibilityAndOfPorts) {
  ServiceEntry entry = entry_of("api", "api.example.org", "10.0.0.7");
  entry.export_to = {"."};
  put(entry);
  entry.ports = {{.number = 443, .target_port = 0, .name = "https", .protocol = "TLS"}};
  put(entry);
  EXPECT_THAT(lines(),
              ElementsAre("different api.example.org: from 10.0.0.7 to 10.0.0.7 for namespace "
                          "shop; ServiceEntry shop/api (shop.yaml:14)",
                          "different api.example.org: 10.0.0.7 for namespace shop; ServiceEntry "
                          "shop/api (shop.yaml:14)"));
}

TEST_F(AnswerHistoryTest, HasTheOutcomeOfSeveralCommitsBetweenTwoLooks) {
  for (const std::string address : {"10.0.0.8", "10.0.0.9"}) {
    registry::Transaction transaction;
    transaction.upsert(entry_of("api", "api.example.org", address), "shop.yaml", 14);
    registry_.commit(std::move(transaction));
  }
  history_.look(*registry_.current(), ++now_);
  EXPECT_THAT(lines(), ElementsAre("different api.example.org: from 10.0.0.7 to 10.0.0.9; "
                                   "ServiceEntry shop/api (shop.yaml:14)"));
}

TEST_F(AnswerHistoryTest, LeavesOutNewAddressesOfEndpointNamesButNotTheirFailure) {
  using State = registry::ResolvedName::State;
  ServiceEntry entry = entry_of("db", "db.example.org", "");
  entry.resolution = registry::Resolution::Dns;
  entry.endpoints.emplace_back().address = "db.example.net";
  put(entry);
  resolve({"192.0.2.1"}, State::Resolved);
  resolve({"192.0.2.2"}, State::Resolved);
  resolve({}, State::Failed);
  EXPECT_THAT(lines(),
              ElementsAre("appeared db.example.org: waits for the addresses of db.example.net; "
                          "ServiceEntry shop/db (shop.yaml:14)",
                          "different db.example.org: from 192.0.2.2 to SERVFAIL: no address of "
                          "db.example.net; ServiceEntry shop/db (shop.yaml:14)"));
}

TEST_F(AnswerHistoryTest, ForgetsTheOldestAndSaysSo) {
  EXPECT_TRUE(history_.is_whole());
  EXPECT_EQ(history_.known_since(), kStart + 1);
  registry::Transaction transaction;
  const std::string long_name(50, 'x');
  for (std::size_t i = 0; i < AnswerHistory::kMaxEvents + 100; ++i)
    transaction.upsert(entry_of(long_name + std::to_string(i),
                                long_name + std::to_string(i) + ".example.org", "10.0.0.7"),
                       "/srv/resources/a/long/path/to/shop.yaml", 1);
  commit(std::move(transaction));
  EXPECT_LE(history_.events().size(), AnswerHistory::kMaxEvents);
  EXPECT_GE(history_.events().size(), AnswerHistory::kMaxEvents / 2);
  EXPECT_LE(history_.bytes(), AnswerHistory::kMaxBytes);
  EXPECT_EQ(history_.counts().appeared, AnswerHistory::kMaxEvents + 100);
  EXPECT_FALSE(history_.is_whole());
  EXPECT_EQ(history_.known_since(), now_);
}

TEST_F(AnswerHistoryTest, KnowsNothingBeforeItBegins) {
  AnswerHistory history;
  history.look(*registry_.current(), now_);
  EXPECT_EQ(history.known_since(), std::nullopt);
  EXPECT_TRUE(history.events().empty());
}

}  // namespace
}  // namespace meshdns::dnsd
