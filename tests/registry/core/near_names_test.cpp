// SPDX-License-Identifier: Apache-2.0
// The names that a client may have meant, compared with a plain model: all names that it sees, each
// with its distance by the table.
#include "registry/view/near_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/registry/core/fixture.hpp"
#include "tests/registry/core/mesh_model.hpp"

namespace meshdns::registry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kAllNames = 1'000'000;

// The table of all beginnings of both texts.
std::size_t distance_by_table(std::string_view a, std::string_view b) {
  std::vector table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      table[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                              table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

std::vector<std::string> labels_in(const std::string& name) {
  std::vector<std::string> labels;
  std::istringstream in(name);
  for (std::string label; std::getline(in, label, '.');) labels.push_back(label);
  return labels;
}

std::string joined(const std::vector<std::string>& labels) {
  std::string name;
  for (const auto& label : labels) name += (name.empty() ? "" : ".") + label;
  return name;
}

// A distance that no name has.
constexpr std::size_t kFar = 100;

std::size_t plain_errors(const std::string& a, const std::string& b) {
  auto rest_a = labels_in(a);
  auto rest_b = labels_in(b);
  while (!rest_a.empty() && !rest_b.empty() && rest_a.back() == rest_b.back()) {
    rest_a.pop_back();
    rest_b.pop_back();
  }
  const std::size_t letters = std::max(joined(rest_a).size(), joined(rest_b).size());
  const std::size_t most = letters < 3 ? 0 : letters < 8 ? 1 : 2;
  const std::size_t errors = distance_by_table(a, b);
  return errors <= most ? errors : kFar;
}

// The name, and without one domain after the other, the longest first; four at most.
std::vector<std::string> plain_spellings(std::string name, std::vector<std::string> domains) {
  domains.insert(domains.end(), {"svc.cluster.local", "cluster.local"});
  std::ranges::sort(domains, std::ranges::greater{}, &std::string::size);
  std::vector<std::string> spellings{name};
  while (spellings.size() < 4) {
    const auto domain = std::ranges::find_if(
        domains, [&](const std::string& d) { return name.ends_with("." + d); });
    if (domain == domains.end()) break;
    name.resize(name.size() - domain->size() - 1);
    spellings.push_back(name);
  }
  return spellings;
}

// The one or two labels in front of the first "svc"; else all, if they are no more.
std::vector<std::string> plain_service(const std::string& spelling) {
  auto labels = labels_in(spelling);
  for (std::size_t i = 1; i < labels.size(); ++i)
    if (labels[i] == "svc")
      return {labels.begin() + static_cast<long>(i < 2 ? 0 : i - 2),
              labels.begin() + static_cast<long>(i)};
  return labels.size() <= 2 ? labels : std::vector<std::string>();
}

std::size_t plain_distance(const std::string& asked, const std::string& host,
                           const std::vector<std::string>& search) {
  std::size_t least = kFar;
  for (const std::string& spelling : plain_spellings(asked, search)) {
    least = std::min(least, plain_errors(spelling, host));
    auto labels = labels_in(spelling);
    if (host.starts_with("*.")) {
      least = std::min(least, plain_errors(spelling, host.substr(2)));
      labels.erase(labels.begin());
      least = std::min(least, plain_errors(joined(labels), host.substr(2)));
      continue;
    }
    const auto service = plain_service(spelling);
    const auto owner = labels_in(host);
    const bool is_service = owner.size() == 5 && host.ends_with(".svc.cluster.local");
    if (!is_service || service.empty()) continue;
    if (service.size() == 1) {
      least = std::min(least, 1 + plain_errors(service[0], owner[0]));
      continue;
    }
    least = std::min(least, plain_errors(joined(service), owner[0] + "." + owner[1]));
    if (service[0] == owner[0]) least = std::min<std::size_t>(least, 2);
  }
  return least;
}

// A world of names that look like each other.
class NearWorlds {
 public:
  explicit NearWorlds(std::uint64_t seed) : random_(seed) {}

  model::World make() {
    model::World world;
    for (std::size_t i = below(16) + 1; i-- > 0;) {
      ServiceEntry& entry = world.entries.emplace_back();
      entry.meta.ns = ns();
      entry.meta.name = "e" + std::to_string(i);
      entry.hosts = {pick<std::string>(
          {"api.example.org", "api.exmaple.org", "apis.example.org", "ap.example.org",
           "www.example.org", "*.wild.example.org", "*.wlid.example.org", "x.wild.example.org",
           "db.example.net", "payments.example.net", "paymnets.example.net"})};
      entry.resolution = Resolution::Static;
      entry.addresses = {*IpPrefix::parse("10.1.0.1")};
      entry.export_to = export_to();
    }
    std::set<std::pair<std::string, std::string>> used;
    for (std::size_t i = below(16) + 1; i-- > 0;) {
      const auto key = std::pair(ns(), service_name());
      if (!used.insert(key).second) continue;
      KubeService& service = world.services.emplace_back();
      std::tie(service.meta.ns, service.meta.name) = key;
      service.cluster_ips = {*IpAddress::parse("10.96.0.1")};
      service.export_to = export_to();
    }
    if (below(2) == 0) {
      Sidecar& sidecar = world.sidecars.emplace_back();
      sidecar.meta.ns = "shop";
      sidecar.meta.name = "narrow";
      sidecar.egress.push_back(
          {0,
           "",
           {pick<std::string>({"./*", "*/*", "shp/*", "bank/*"}),
            pick<std::string>({"*/api.example.org", "./*", "*/*.example.net"})}});
    }
    return world;
  }

  // A name of some world, with errors, and maybe with domains behind it.
  std::string question() {
    std::string name = pick<std::string>(
        {"api.example.org", "wild.example.org", "x.wild.example.org", "payments.example.net",
         service_name(), service_name() + "." + ns(), service_name() + "." + ns() + ".svc",
         "a." + service_name() + "." + ns() + ".svc"});
    for (std::size_t i = below(3); i-- > 0;) misspell(name);
    for (std::size_t i = below(3); i-- > 0;)
      name += pick<std::string>({".svc.cluster.local", ".cluster.local", ".shop.svc.cluster.local",
                                 ".svc.other.local", ".svc.cluster.lcal"});
    return name;
  }

  std::string ns() { return pick<std::string>({"shop", "shp", "bank", "a"}); }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  template <typename T>
  T pick(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }
  std::string service_name() {
    return pick<std::string>({"web", "wbe", "api", "apis", "db", "storefront", "storefornt"});
  }
  ExportTo export_to() { return pick<ExportTo>({{}, {"*"}, {"."}, {"~"}, {"shop"}, {"shp", "a"}}); }
  void misspell(std::string& name) {
    if (name.size() < 2) return;
    const std::size_t at = below(name.size() - 1);
    if (name[at] == '.' || name[at + 1] == '.') return;
    switch (below(4)) {
      case 0:
        std::swap(name[at], name[at + 1]);
        return;
      case 1:
        name[at] = 'q';
        return;
      case 2:
        name.insert(at, 1, 'e');
        return;
      default:
        if (name.size() > 3) name.erase(at, 1);
    }
  }

  std::mt19937_64 random_;
};

void commit_near_world(Registry& registry, const model::World& world) {
  Transaction transaction;
  for (const auto& entry : world.entries) transaction.upsert(entry, "world.yaml", 1);
  for (const auto& service : world.services) transaction.upsert(service, "world.yaml", 1);
  for (const auto& sidecar : world.sidecars) transaction.upsert(sidecar, "world.yaml", 1);
  registry.commit(std::move(transaction));
}

std::vector<std::string> plain_near_names(const model::World& world, const std::string& ns,
                                          const std::string& asked,
                                          const std::vector<std::string>& search) {
  std::set<std::string> hosts;
  for (const auto& entry : world.entries) hosts.insert(entry.hosts.front());
  for (const auto& service : world.services)
    hosts.insert(service.meta.name + "." + service.meta.ns + ".svc.cluster.local");
  const model::Mesh mesh(world);
  std::set<std::pair<std::size_t, std::string>> near;
  for (const std::string& host : hosts)
    if (const auto distance = plain_distance(asked, host, search);
        distance < kFar && mesh.has_host({ns, {}}, host))
      near.emplace(distance, host);
  std::vector<std::string> names;
  for (const auto& [distance, host] : near)
    if (names.size() < kMaxNearNames) names.push_back(host);
  return names;
}

std::vector<std::string> names_in(const NearNames& near) {
  std::vector<std::string> names;
  for (const auto& name : near.names) names.push_back(name.name);
  return names;
}

TEST(NearNamesTest, AreThoseOfAPlainModelInRandomWorlds) {
  NearWorlds worlds(20261128);
  std::size_t found = 0;
  for (int i = 0; i < 40; ++i) {
    const model::World world = worlds.make();
    Registry registry(world.settings);
    commit_near_world(registry, world);
    for (int k = 0; k < 40; ++k) {
      ClientIdentity identity;
      identity.ns = worlds.ns();
      const Ref<const Client> client = registry.client_of(identity);
      const std::string asked = worlds.question();
      const NearNames near = near_names(*registry.current(), *client, asked, kAllNames);
      ASSERT_EQ(names_in(near), plain_near_names(world, identity.ns, asked, client->search))
          << asked << " for " << identity.ns << " in world " << i;
      EXPECT_TRUE(near.is_complete);
      found += near.names.size();
    }
  }
  EXPECT_GT(found, 300U);
}

class NearNamesOfAMeshTest : public testing::Test {
 protected:
  std::vector<std::string> near(std::string_view name, std::string ns = "web") {
    registry_.be_in(std::move(ns));
    const auto snapshot = registry_.registry().current();
    last_ = near_names(*snapshot, *snapshot->default_client, name, kAllNames);
    return names_in(last_);
  }

  TestRegistry registry_;
  NearNames last_;
};

TEST_F(NearNamesOfAMeshTest, HaveEachSortOfMistake) {
  registry_.load(R"(
Service shop/web
spec: {clusterIP: 10.96.0.1}
ServiceEntry net/api
spec: {hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC}
ServiceEntry net/wild
spec: {hosts: ["*.wild.example.org"], addresses: [10.0.0.8], resolution: STATIC}
)");
  const std::string web = "web.shop.svc.cluster.local";
  for (const char* name :
       {"wbe.shop.svc.cluster.local", "web.shp.svc.cluster.local", "web.shop.scv.cluster.local",
        "web.svc.cluster.local", "web", "web.shp", "web.default", "web.bank.svc.cluster.local",
        "web.shop.svc.cluster.local.svc.cluster.local", "web.shop.cluster.local", "wbe.shop.svc",
        "web.shop.svc.cluster.lcal", "web.shop.svc.other.local", "web.shop.svc.cluster",
        "web-0.web.shp.svc.cluster.local",
        "web.shop.svc.cluster.local.web.svc.cluster.local.web.svc.cluster.local"})
    EXPECT_THAT(near(name), ElementsAre(web)) << name;
  for (const char* name :
       {"api.exmaple.org", "ai.example.org", "api.example.org.web.svc.cluster.local",
        "api.exmple.ogr.web.svc.cluster.local", "apis.example.org"})
    EXPECT_THAT(near(name), ElementsAre("api.example.org")) << name;
  for (const char* name : {"wild.example.org", "www.wlid.example.org"})
    EXPECT_THAT(near(name), ElementsAre("*.wild.example.org")) << name;
  for (const char* name : {"", ".", "x", "org", "www.example.com", "db.shop.svc.cluster.local",
                           "example.org", "other.example.org", "svc.cluster.local", "..svc.."})
    EXPECT_THAT(near(name), IsEmpty()) << name;
  near("web");
  EXPECT_EQ(last_.names.front().ns, "shop");
}

TEST_F(NearNamesOfAMeshTest, LeaveOutWhatTheClientDoesNotSee) {
  std::string hidden;
  for (int i = 0; i < 400; ++i)
    hidden += "ServiceEntry shop/e" + std::to_string(i) + "\nspec: {hosts: [api" +
              std::to_string(i) + ".example.org], resolution: NONE, exportTo: [\".\"]}\n";
  registry_.load(hidden + R"(
ServiceEntry net/api
spec: {hosts: [apix.example.org], resolution: NONE}
)");
  EXPECT_THAT(near("api.example.org", "shop"),
              ElementsAre("api0.example.org", "api1.example.org", "api2.example.org",
                          "api3.example.org", "api4.example.org"));
  EXPECT_TRUE(last_.is_complete);
  EXPECT_THAT(near("api.example.org"), ElementsAre("apix.example.org"));
}

// So many names that are nearer are hidden that the look at them ends before the last one.
TEST_F(NearNamesOfAMeshTest, MayLackSomeBehindACrowdOfHiddenOnes) {
  std::string hidden;
  for (char x = 'a'; x < 's'; ++x)
    for (char y = 'a'; y < 's'; ++y) {
      const std::string name = std::string("payments-") + x + y;
      hidden += "ServiceEntry shop/" + name + "\nspec: {hosts: [" + name +
                ".example.org], resolution: NONE, exportTo: [\".\"]}\n";
    }
  registry_.load(hidden + R"(
ServiceEntry net/api
spec: {hosts: [payments-yy.example.org], resolution: NONE}
)");
  EXPECT_THAT(near("payments-zz.example.org"), IsEmpty());
  EXPECT_FALSE(last_.is_complete);
  EXPECT_THAT(near("payments-yz.example.org"), ElementsAre("payments-yy.example.org"));
  EXPECT_FALSE(last_.is_complete);
}

TEST_F(NearNamesOfAMeshTest, AreLookedForAmongSoManyNames) {
  registry_.load(R"(
Service shop/web
spec: {clusterIP: 10.96.0.1}
Service bank/web
spec: {clusterIP: 10.96.0.2}
)");
  const auto snapshot = registry_.registry().current();
  const NearNames one = near_names(*snapshot, *snapshot->default_client, "web", 1);
  EXPECT_EQ(one.names.size(), 1U);
  EXPECT_EQ(one.compared, 1U);
  EXPECT_EQ(one.known, 2U);
  EXPECT_FALSE(one.is_complete);
  EXPECT_TRUE(near_names(*snapshot, *snapshot->default_client, "web", 2).is_complete);
}

}  // namespace
}  // namespace meshdns::registry
