// SPDX-License-Identifier: Apache-2.0
// mesh.registry_only against a simple model: the policy of the client, the kind of the name, the
// mode, the namespaces and what the sources have delivered decide, and nothing else.
#include "dnsd/answer/registry_only.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

using registry::OutboundPolicy;
using registry::RegistryOnlyMode;
using registry::RegistryOnlyRcode;

// The names that REGISTRY_ONLY tells apart.
enum class NameKind : std::uint8_t {
  Allowed,
  Outside,
  Above,  // outside, but a name below it may be answered
};
struct NameOfKind {
  const char* question;
  NameKind kind;
};
constexpr auto kJudgedNames = std::to_array<NameOfKind>({
    {"www.example.net. A", NameKind::Outside},
    {"www.example.net. AAAA", NameKind::Outside},
    {"www.example.net. MX", NameKind::Outside},
    {"foo.api.example.org. A", NameKind::Outside},
    {"hidden.example.org. A", NameKind::Outside},
    {"example.org. A", NameKind::Above},
    {"org. NS", NameKind::Above},
    {". NS", NameKind::Above},
    {"example. A", NameKind::Above},         // corp.example
    {"left.test-zone. A", NameKind::Above},  // through.left.test-zone
    {"api.example.org. A", NameKind::Allowed},
    {"api.example.org. MX", NameKind::Allowed},
    {"_x._tcp.api.example.org. TXT", NameKind::Allowed},
    {"left.example.org. A", NameKind::Allowed},  // known, and left to the upstream
    {"corp.example. A", NameKind::Allowed},
    {"db.corp.example. A", NameKind::Allowed},
    {"vpn.test-zone. A", NameKind::Allowed},
    {"a.through.left.test-zone. A", NameKind::Allowed},
    {"printer.home. A", NameKind::Allowed},
    {"printer.home. TXT", NameKind::Allowed},
    {"9.9.9.9.in-addr.arpa. PTR", NameKind::Allowed},
    {"out.shop.svc.cluster.local. A", NameKind::Allowed},  // leads to www.example.net
});

constexpr std::string_view kObjectsOfShop = R"(
ServiceEntry shop/api
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
ServiceEntry shop/left
spec: { hosts: [left.example.org], resolution: NONE }
ServiceEntry bank/hidden
spec: { hosts: [hidden.example.org], addresses: [10.0.0.8], resolution: STATIC, exportTo: ["."] }
Service shop/out
spec: { type: ExternalName, externalName: www.example.net }
)";

struct WorldOfPolicies {
  std::optional<OutboundPolicy> sidecar;
  OutboundPolicy mesh = OutboundPolicy::AllowAny;
  RegistryOnlyMode mode = RegistryOnlyMode::Explain;
  RegistryOnlyRcode rcode = RegistryOnlyRcode::NxDomain;
  std::vector<std::string> namespaces = {};
  registry::SourceState sources = {};

  bool is_registry_only() const { return sidecar.value_or(mesh) == OutboundPolicy::RegistryOnly; }
  // Whether the mode has an effect on the client's names, which is in the namespace shop.
  bool acts() const {
    const bool is_read = sources.synced && !sources.from_state_dir && !sources.policies_unknown;
    return is_registry_only() && is_read &&
           (namespaces.empty() || std::ranges::find(namespaces, "shop") != namespaces.end());
  }
};

class RegistryOnlyTest : public QueryFixture {
 protected:
  RegistryOnlyTest() {
    Config config;
    config.upstream.zones["corp.example"] = {};
    settings_ = QuerySettings::from(config);
    settings_.registry_only = std::make_shared<const RegistryOnly>(
        config.upstream, std::set<std::string>{"vpn.test-zone"});
    HostsFile hosts;
    hosts.entries.push_back(
        {.address = *IpAddress::parse("192.168.7.7"), .names = {"printer.home"}});
    settings_.local =
        std::make_shared<const LocalNames>(hosts, std::map<std::string, Override>{}, std::nullopt);
    be_in("shop");
    load(kObjectsOfShop);
  }

  void enter(const WorldOfPolicies& world) {
    registry::MeshSettings settings;
    settings.outbound_policy = world.mesh;
    settings.registry_only = {world.mode, world.rcode, world.namespaces};
    settings.fallthrough = {"through.left.test-zone"};
    configure(settings);
    registry_.registry().set_sources(world.sources);
    registry_.remove({registry::Kind::Sidecar, "", "shop", "default"});
    if (!world.sidecar) return;
    load(
        "Sidecar shop/default\nspec: { egress: [{ hosts: [\"*/*\"] }], outboundTrafficPolicy: { "
        "mode: " +
        std::string(to_string(*world.sidecar)) + " } }\n");
  }

  // The answer; the upstream answers what is asked there.
  std::string answer(const char* question) {
    const std::string text = ask(question);
    upstream_.settle();
    return text;
  }

  std::map<std::string, std::string> answers_without_policy(const registry::SourceState& sources) {
    enter({.sources = sources});
    std::map<std::string, std::string> answers;
    for (const auto& [question, kind] : kJudgedNames) answers[question] = answer(question);
    return answers;
  }

  std::uint64_t refused() { return handler().counters().outside_refused.value(); }
  std::uint64_t audited() { return handler().counters().outside_audited.value(); }
};

TEST_F(RegistryOnlyTest, HoldsForEachPolicyNameAndMode) {
  std::vector<WorldOfPolicies> worlds;
  const registry::SourceState read{};
  for (const auto sidecar :
       {std::optional<OutboundPolicy>(), std::optional(OutboundPolicy::AllowAny),
        std::optional(OutboundPolicy::RegistryOnly)})
    for (const auto mesh : {OutboundPolicy::AllowAny, OutboundPolicy::RegistryOnly})
      for (const auto mode :
           {RegistryOnlyMode::Explain, RegistryOnlyMode::Audit, RegistryOnlyMode::Answer})
        for (const auto rcode : {RegistryOnlyRcode::NxDomain, RegistryOnlyRcode::Refused})
          for (const auto& namespaces :
               std::vector<std::vector<std::string>>{{}, {"bank"}, {"bank", "shop"}})
            worlds.push_back({sidecar, mesh, mode, rcode, namespaces, read});
  for (const registry::SourceState& unread :
       {registry::SourceState{.synced = false}, registry::SourceState{.from_state_dir = true},
        registry::SourceState{.policies_unknown = true}})
    worlds.push_back({OutboundPolicy::RegistryOnly,
                      OutboundPolicy::RegistryOnly,
                      RegistryOnlyMode::Answer,
                      RegistryOnlyRcode::NxDomain,
                      {},
                      unread});
  for (const WorldOfPolicies& world : worlds) {
    std::map<std::string, std::string> usual = answers_without_policy(world.sources);
    enter(world);
    for (const auto& [question, kind] : kJudgedNames) {
      const std::uint64_t refused_before = refused();
      const std::uint64_t audited_before = audited();
      const std::string got = answer(question);
      const bool is_meant = world.acts() && kind != NameKind::Allowed;
      const bool is_refused = is_meant && world.mode == RegistryOnlyMode::Answer;
      const std::string about = std::string(question) + " mode " +
                                std::to_string(static_cast<int>(world.mode)) + " got " + got;
      EXPECT_EQ(refused() - refused_before, is_refused ? 1U : 0U) << about;
      EXPECT_EQ(audited() - audited_before,
                is_meant && world.mode == RegistryOnlyMode::Audit ? 1U : 0U)
          << about;
      if (!is_refused) {
        EXPECT_EQ(got, usual[question]) << about;
        continue;
      }
      const std::string_view text = question;
      const std::string name(text.substr(0, text.find(' ')));
      const std::string negative = (kind == NameKind::Above ? "NODATA " : "NXDOMAIN ") + name;
      const bool is_rcode_refused = world.rcode == RegistryOnlyRcode::Refused;
      EXPECT_EQ(got, is_rcode_refused ? "not aa, REFUSED, EDE 15" : negative) << about;
      ASSERT_EQ(message_.extended_errors.size(), 1U) << about;
      EXPECT_EQ(static_cast<int>(message_.extended_errors[0].first), 15) << about;
    }
  }
}

WorldOfPolicies refusing() {
  return {.sidecar = OutboundPolicy::RegistryOnly, .mode = RegistryOnlyMode::Answer};
}

TEST_F(RegistryOnlyTest, RefusesWhatTheCacheHas) {
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  upstream_.cached = {"www.example.net. A"};
  enter({});
  EXPECT_EQ(ask("www.example.net. A"), "not aa, www.example.net. 60 A 192.0.2.1");
  enter(refusing());
  EXPECT_EQ(ask("www.example.net. A"), "NXDOMAIN www.example.net.");
}

// The aliases of allowed names lead where they lead.
TEST_F(RegistryOnlyTest, FollowsAliasesOutOfTheRegistry) {
  upstream_.replies["db.corp.example. A"] = {
      .answer = {"db.corp.example. 60 CNAME db.cdn.example.", "db.cdn.example. 60 A 192.0.2.1"}};
  enter(refusing());
  EXPECT_EQ(ask_through("db.corp.example. A"),
            "not aa, db.corp.example. 60 CNAME db.cdn.example., db.cdn.example. 60 A 192.0.2.1");
}

TEST_F(RegistryOnlyTest, ListsTheNames) {
  enter({.sidecar = OutboundPolicy::RegistryOnly, .mode = RegistryOnlyMode::Audit});
  answer("www.example.net. A");
  answer("www.example.net. AAAA");
  enter(refusing());
  answer("mail.example.net. A");
  std::map<std::string, std::pair<wire::Rcode, std::uint64_t>> listed;
  for (const FailingNames::Entry& entry : handler().outside_names().list())
    listed[entry.name] = {entry.rcode, entry.count};
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed["www.example.net"], std::pair(wire::Rcode::NoError, std::uint64_t{2}));
  EXPECT_EQ(listed["mail.example.net"], std::pair(wire::Rcode::NxDomain, std::uint64_t{1}));
}

// A refused step of a walk along the search list is a name that does not exist.
TEST_F(RegistryOnlyTest, LetsAWalkGoOn) {
  registry::ClientIdentity identity;
  identity.ns = "shop";
  identity.search = {"shop.svc.cluster.local", "node.example"};
  registry_.be(identity);
  enter(refusing());
  registry::MeshSettings settings = *registry_.snapshot().settings;
  settings.search_shortcut = registry::SearchShortcut::All;
  configure(settings);
  be_authority();
  upstream_.replies["db.corp.example. A"] = {.answer = {"db.corp.example. 60 A 192.0.2.1"}};
  const std::string walked = ask_through("db.corp.example.shop.svc.cluster.local. A");
  EXPECT_NE(walked.find("db.corp.example. 60 A 192.0.2.1"), std::string::npos) << walked;
  EXPECT_EQ(upstream_.asked, std::vector<std::string>{"db.corp.example. A"})
      << "db.corp.example.node.example is refused";
}

}  // namespace
}  // namespace meshdns::dnsd
