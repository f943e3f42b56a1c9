// SPDX-License-Identifier: Apache-2.0
// Services that several clusters have: random worlds against a simple model of the rules in
// docs/kubernetes.md, "Several clusters".
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

// Sanitizers make each question ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kClusterRounds = 20;
#else
constexpr int kClusterRounds = 340;  // 300 questions each
#endif

constexpr const char* kClusterNames[] = {"", "a", "b", "c"};  // "": a source without `cluster`
constexpr const char* kClientClusters[] = {"", "a", "b", "c", "d"};
constexpr const char* kMemberNames[] = {"db-0", "db-1", "db-2"};
constexpr std::string_view kClusteredHost = "db.shop.svc.cluster.local";

struct Member {
  std::string name;
  std::string address;
  bool ready = true;
};

// The Service of one cluster.
struct ClusterService {
  std::string cluster;
  std::int64_t created = 0;
  bool headless = false;
  std::string alias = {};       // not empty: ExternalName
  std::string cluster_ip = {};  // empty: it waits for one
  std::vector<Member> members = {};
};
using ClusterServices = std::vector<ClusterService>;

std::string ready_members(const ClusterServices& services) {
  std::set<std::string> addresses;
  for (const auto& service : services)
    for (const auto& member : service.members)
      if (member.ready) addresses.insert(member.address);
  std::string text;
  for (const auto& address : addresses) text += " " + address;
  return text;
}

// The rules, for one client.
class ClusterRules {
 public:
  ClusterRules(ClusterServices services, std::string client, ClusterChoice choice)
      : all_(std::move(services)), client_(std::move(client)), choice_(choice) {
    std::ranges::sort(all_, {}, [](const auto& s) { return std::pair(s.created, s.cluster); });
    if (client_.empty()) return;
    for (const std::string& cluster : {client_, std::string()})
      if (!own_)
        for (const auto& service : all_)
          if (service.cluster == cluster &&
              (choice_ == ClusterChoice::LocalOnly || !answer_of({service}).empty()))
            own_ = service;
  }

  std::string ask() const {
    if (!own_) return sees_all() ? answer_of(all_) : "";
    const bool is_merged = choice_ == ClusterChoice::Merge && own_->headless &&
                           !answering(all_).empty() &&
                           std::ranges::all_of(answering(all_), &ClusterService::headless);
    return answer_of(is_merged ? all_ : ClusterServices{*own_});
  }

  std::string ask_member(std::string_view name) const {
    const auto named = [&](ClusterServices services) {
      for (auto& service : services)
        std::erase_if(service.members, [&](const Member& m) { return m.name != name; });
      return ready_members(services);
    };
    if (own_)
      if (const std::string found = named({*own_}); !found.empty()) return found;
    return sees_all() ? named(answering(all_)) : "";
  }

 private:
  bool sees_all() const { return client_.empty() || choice_ != ClusterChoice::LocalOnly; }

  static bool is_unusable(const ClusterService& service) {
    return IpAddress::parse(service.alias).has_value();
  }
  // The table in docs/kubernetes.md: the kinds that answer for Services of several.
  static ClusterServices answering(ClusterServices services) {
    std::erase_if(services, is_unusable);
    if (services.empty()) return {};
    if (!services.front().alias.empty()) return {services.front()};
    std::erase_if(services, [](const auto& s) { return !s.alias.empty(); });
    const bool has_ip =
        std::ranges::any_of(services, [](const auto& s) { return !s.cluster_ip.empty(); });
    const bool has_headless = std::ranges::any_of(services, &ClusterService::headless);
    if (!has_ip && has_headless) std::erase_if(services, [](const auto& s) { return !s.headless; });
    return services;
  }
  static std::string answer_of(const ClusterServices& all) {
    const ClusterServices services = answering(all);
    if (services.empty()) return "";
    if (!services.front().alias.empty()) return " " + services.front().alias;
    if (std::ranges::all_of(services, &ClusterService::headless)) return ready_members(services);
    std::set<std::string> addresses;
    for (const auto& service : services)
      if (!service.cluster_ip.empty()) addresses.insert(service.cluster_ip);
    std::string text;
    for (const auto& address : addresses) text += " " + address;
    return text;
  }

  ClusterServices all_;
  const std::string client_;
  const ClusterChoice choice_;
  std::optional<ClusterService> own_;
};

class ClusterWorlds {
 public:
  explicit ClusterWorlds(std::uint64_t seed) : random_(seed) {}

  ClusterServices make() {
    ClusterServices services;
    for (const std::string cluster : kClusterNames)
      if (below(4) != 0) services.push_back(service(cluster));
    return services;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  ClusterService service(const std::string& cluster) {
    const std::string net = std::to_string(1 + (cluster.empty() ? 0 : cluster[0] - 'a' + 1));
    ClusterService service;
    service.cluster = cluster;
    service.created = static_cast<std::int64_t>(below(3));
    switch (below(7)) {
      case 0:
        service.alias = below(4) == 0 ? "192.0.2.1" : "x" + cluster + ".example.org";
        break;
      case 1:
      case 2:
        if (below(4) != 0) service.cluster_ip = "10.96.0." + net;
        break;
      default:
        service.headless = true;
        for (const std::string name : kMemberNames)
          if (below(2) == 0)
            service.members.push_back(
                {name, "10." + net + ".0." + std::to_string(1 + below(20)), below(4) != 0});
    }
    return service;
  }

  std::mt19937_64 random_;
};

void append_to(const ClusterService& from, std::vector<Resource>& resources) {
  KubeService service;
  service.meta.ns = "shop";
  service.meta.name = "db";
  service.meta.cluster = from.cluster;
  service.meta.creation_time = from.created;
  service.ports.push_back({80, 0, "http", "TCP"});
  service.headless = from.headless;
  if (!from.alias.empty()) service.type = ServiceType::ExternalName;
  service.external_name = from.alias;
  if (!from.cluster_ip.empty()) service.cluster_ips = {*IpAddress::parse(from.cluster_ip)};
  resources.emplace_back(service);
  if (from.members.empty()) return;
  EndpointSlice slice;
  slice.meta = service.meta;
  slice.meta.name = "db-1";
  slice.service = "db";
  auto& subset = slice.subsets.emplace_back();
  subset.ports.push_back({80, 0, "http", "TCP"});
  for (const auto& member : from.members) {
    Endpoint endpoint;
    endpoint.addresses = {*IpAddress::parse(member.address)};
    endpoint.hostname = member.name;
    endpoint.ready = member.ready;
    subset.endpoints.push_back(std::move(endpoint));
  }
  resources.emplace_back(slice);
}

void commit_services(Registry& registry, const ClusterServices& services) {
  std::vector<Resource> resources;
  for (const auto& service : services) append_to(service, resources);
  const std::string origin = "world.yaml";
  Transaction transaction;
  transaction.replace_origin(origin);
  for (const Resource& resource : resources) transaction.upsert(resource, origin, 1);
  registry.commit(std::move(transaction));
}

std::string found_at_host(const View& view) {
  const Match match = view.lookup(kClusteredHost);
  if (!match) return "";
  if (!match.service->alias().empty()) return " " + std::string(match.service->alias());
  std::set<std::string> addresses;
  for (const auto& a : view.addresses(*match.service).v4)
    addresses.insert(IpAddress::v4(a).to_string());
  std::string text;
  for (const auto& address : addresses) text += " " + address;
  return text;
}

std::string found_at_member(const View& view, const std::string& name) {
  const std::string full = name + "." + std::string(kClusteredHost);
  const Match match = view.lookup(full);
  if (!match || match.service->endpoints() == nullptr) return "";
  std::set<std::string> addresses;
  for (const auto& entry : match.service->endpoints()->entries)
    if (entry.ready && entry.hostname == name) addresses.insert(entry.address.to_string());
  std::string text;
  for (const auto& address : addresses) {
    text += " " + address;
    // Its reverse name leads back.
    const auto names = view.reverse(*IpAddress::parse(address));
    EXPECT_TRUE(std::ranges::any_of(names, [&](const auto& n) { return n.name == full; }))
        << address << " " << full;
  }
  return text;
}

TEST(ClusterChoiceTest, AnswersOfRandomWorldsFollowTheRules) {
  ClusterWorlds worlds(20261125);
  long questions = 0;
  for (int round = 0; round < kClusterRounds; ++round)
    for (const auto choice :
         {ClusterChoice::LocalFirst, ClusterChoice::Merge, ClusterChoice::LocalOnly}) {
      MeshSettings settings;
      settings.clusters = choice;
      Registry registry(settings);
      for (int change = 0; change < 5; ++change) {
        const ClusterServices services = worlds.make();
        commit_services(registry, services);
        for (const std::string cluster : kClientClusters) {
          const ClusterRules rules(services, cluster, choice);
          ClientIdentity identity;
          identity.ns = "shop";
          identity.cluster = cluster;
          const auto snapshot = registry.current();
          const Ref<const Client> client = registry.client_of(identity);
          const View view(*snapshot, *client);
          ASSERT_EQ(found_at_host(view), rules.ask())
              << "cluster " << cluster << ", choice " << static_cast<int>(choice);
          for (const std::string name : kMemberNames)
            ASSERT_EQ(found_at_member(view, name), rules.ask_member(name))
                << name << ", cluster " << cluster << ", choice " << static_cast<int>(choice);
          questions += 4;
        }
      }
    }
  EXPECT_EQ(questions, 300L * kClusterRounds);
}

TEST(ClusterChoiceTest, ANameOfTwoClustersLeadsBackFromTheClientsOwn) {
  Registry registry{MeshSettings{}};
  commit_services(registry, {{.cluster = "a", .headless = true, .members = {{"db-0", "10.1.0.1"}}},
                             {.cluster = "b",
                              .headless = true,
                              .members = {{"db-0", "10.2.0.1"}, {"db-1", "10.2.0.2"}}}});
  ClientIdentity identity;
  identity.ns = "shop";
  identity.cluster = "a";
  const auto snapshot = registry.current();
  const Ref<const Client> client = registry.client_of(identity);
  const View view(*snapshot, *client);
  const auto names_of = [&](const char* address) {
    std::vector<std::string> names;
    for (const auto& name : view.reverse(*IpAddress::parse(address))) names.push_back(name.name);
    return names;
  };
  const std::string host(kClusteredHost);
  EXPECT_EQ(names_of("10.1.0.1"), std::vector{"db-0." + host});
  EXPECT_EQ(names_of("10.2.0.1"), std::vector<std::string>{});
  EXPECT_EQ(names_of("10.2.0.2"), std::vector{"db-1." + host});
}

// Clusters may give the same addresses.
TEST(ClusterChoiceTest, AServiceThatIsDeniedInTheClientsClusterHasNoReverseName) {
  MeshSettings settings;
  settings.clusters = ClusterChoice::LocalOnly;
  settings.ignore_empty_service = true;
  Registry registry(settings);
  commit_services(registry,
                  {{.cluster = "a", .cluster_ip = "10.96.0.1"},
                   {.cluster = "b", .cluster_ip = "10.96.0.1", .members = {{"db-0", "10.2.0.1"}}}});
  const auto snapshot = registry.current();
  ClientIdentity identity;
  identity.ns = "shop";
  for (const std::string cluster : {"a", "b"}) {
    identity.cluster = cluster;
    const Ref<const Client> client = registry.client_of(identity);
    const View view(*snapshot, *client);
    EXPECT_EQ(view.lookup(kClusteredHost).service->answer,
              cluster == "a" ? AnswerKind::NoReadyEndpoints : AnswerKind::Vips);
    EXPECT_EQ(view.reverse(*IpAddress::parse("10.96.0.1")).size(), cluster == "a" ? 0U : 1U);
  }
}

// Nearly all meshes have one cluster, or Services that differ in their cluster IPs only: their
// records have no parts, whatever the client's cluster.
TEST(ClusterChoiceTest, KeepsNoPartsWithoutNeed) {
  for (const ClusterServices& services :
       {ClusterServices{{.cluster = "a", .cluster_ip = "10.96.0.1"}},
        ClusterServices{{.cluster = "a", .headless = true, .members = {{"db-0", "10.1.0.1"}}}},
        ClusterServices{{.cluster = "", .cluster_ip = "10.96.0.1"}},
        ClusterServices{{.cluster = "a", .cluster_ip = "10.96.0.1"},
                        {.cluster = "b", .cluster_ip = "10.96.0.2"}}}) {
    Registry registry{MeshSettings{}};
    commit_services(registry, services);
    const auto snapshot = registry.current();
    const HostEntry* const host = snapshot->find_host(kClusteredHost);
    ASSERT_NE(host, nullptr);
    EXPECT_FALSE(host->records()[0]->split);
  }
}

// Details of each Service and their lists would take 704 octets, and this takes 176.
TEST(ClusterChoiceTest, KeepsClusterIpsInShort) {
  struct Case {
    ClusterServices services;
    bool is_short;
  };
  const std::vector<Case> cases = {
      {{{.cluster = "a", .cluster_ip = "10.96.0.1"}, {.cluster = "b", .cluster_ip = "10.96.0.2"}},
       true},
      {{{.cluster = "a", .cluster_ip = "10.96.0.1"},
        {.cluster = "b", .cluster_ip = "10.96.0.2"},
        {.cluster = "c", .cluster_ip = "10.96.0.3"}},
       true},
      // One address cannot stand twice in the answer for clients of no cluster.
      {{{.cluster = "a", .cluster_ip = "10.96.0.1"}, {.cluster = "b", .cluster_ip = "10.96.0.1"}},
       false},
      {{{.cluster = "a", .cluster_ip = "10.96.0.1"}, {.cluster = "b", .cluster_ip = "fd00::1"}},
       false}};
  for (const auto& [services, is_short] : cases) {
    Registry registry{MeshSettings{}};
    commit_services(registry, services);
    const auto snapshot = registry.current();
    const ServiceRecord& record = *snapshot->find_host(kClusteredHost)->records()[0];
    SCOPED_TRACE(services.size());
    EXPECT_EQ(record.details.cluster_ips() != nullptr, is_short);
    EXPECT_EQ(record.details.get() == nullptr, is_short);
    EXPECT_TRUE(record.differs_by_cluster());
    EXPECT_EQ(record.addresses_by_cluster().size(), services.size());
    EXPECT_EQ(record.more_sources().size(), services.size() - 1);
  }
}

}  // namespace
}  // namespace meshdns::registry
