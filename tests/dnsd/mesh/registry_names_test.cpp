// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/registry_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::dnsd {
namespace {

using registry::Changes;
using registry::KubeService;
using registry::NameUse;
using registry::ResolvedName;
using registry::ServiceEntry;
using resolver::MeshAnswer;

constexpr std::array<std::string_view, 3> kNamespaces = {"shop", "toys", "bank"};
constexpr std::array<std::string_view, 7> kEntryHosts = {"a.example.org",
                                                         "b.example.org",
                                                         "c.example.org",
                                                         "*.example.org",
                                                         "web.shop",
                                                         "*.c.example.org",
                                                         "web"};
constexpr std::array<std::string_view, 11> kNames = {"a.example.org",
                                                     "b.example.org",
                                                     "c.example.org",
                                                     "x.example.org",
                                                     "x.c.example.org",
                                                     "out.example.net",
                                                     "web",
                                                     "web.shop",
                                                     "web.shop.svc",
                                                     "web.shop.svc.cluster.local",
                                                     "10-0-0-1.toys.pod.cluster.local"};

// Does what the resolver does, without pauses, lookups and a loop: outside names have one address.
class Follower {
 public:
  explicit Follower(registry::Registry& registry) : registry_(registry), names_(registry) {}

  // Returns the number of commits that it took until nothing was new.
  int follow(Changes summary) {
    int commits = 0;
    for (;;) {
      std::map<std::string, std::vector<ResolvedName>> news;
      for (const NameUse& use : summary.names.removed) known_.erase(use);
      for (const NameUse& use : to_check(summary)) check(use, news);
      if (news.empty()) return commits;
      registry::Transaction transaction;
      for (auto& [ns, results] : news)
        for (auto& result : results) transaction.set_resolved(ns, std::move(result));
      summary = registry_.commit(std::move(transaction));
      if (++commits > 100) return commits;
    }
  }

  // The uses whose result is not that of the mesh as it is now.
  std::vector<NameUse> outdated() {
    std::vector<NameUse> uses;
    std::size_t count = 0;
    for (const auto& ns : registry_.namespaces_with_endpoint_names())
      for (const auto& name : registry_.endpoint_names_of(ns)) {
        ++count;
        const auto found = known_.find({name, ns});
        if (found == known_.end() || found->second != names_.find(ns, name, name))
          uses.push_back({name, ns});
      }
    EXPECT_EQ(count, known_.size());
    return uses;
  }

 private:
  std::set<NameUse> to_check(const Changes& summary) const {
    std::set<NameUse> uses(summary.names.added.begin(), summary.names.added.end());
    uses.insert(summary.names.touched.begin(), summary.names.touched.end());
    for (const auto& [use, answer] : known_)
      if (summary.names.all_touched ||
          std::ranges::find(summary.names.touched_namespaces, use.ns) !=
              summary.names.touched_namespaces.end())
        uses.insert(use);
    return uses;
  }

  void check(const NameUse& use, std::map<std::string, std::vector<ResolvedName>>& news) {
    MeshAnswer answer = names_.find(use.ns, use.name, use.name);
    const auto [found, is_new] = known_.try_emplace(use, answer);
    if (!is_new && found->second == answer) return;
    found->second = answer;
    ResolvedName result = answer.result;
    result.host = use.name;
    if (answer.is_outside) {
      result.state = ResolvedName::State::Resolved;
      result.addresses = {*IpAddress::parse("203.0.113.1")};
    }
    news[use.ns].push_back(std::move(result));
  }

  registry::Registry& registry_;
  RegistryNames names_;
  std::map<NameUse, MeshAnswer> known_;
};

// Random objects in three namespaces, each in a place of its own.
class RandomMesh {
 public:
  RandomMesh(registry::Registry& registry, std::uint32_t seed)
      : registry_(registry), origin_("test.yaml"), random_(seed) {}

  Changes change() {
    registry::Transaction transaction;
    const std::uint32_t place = below(30);
    meta_.name = "p" + std::to_string(place);
    meta_.ns = pick(kNamespaces);
    meta_.creation_time = below(5);
    if (const auto old = objects_.find(place); old != objects_.end()) {
      transaction.remove(old->second, origin_);
      objects_.erase(old);
    }
    if (below(4) != 0) {
      const registry::Resource resource = make(place);
      objects_[place] = registry::key_of(resource);
      transaction.upsert(resource, origin_, 1);
    }
    return registry_.commit(std::move(transaction));
  }

 private:
  std::uint32_t below(std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_);
  }
  template <typename Texts>
  std::string pick(const Texts& texts) {
    return std::string(texts[below(static_cast<std::uint32_t>(texts.size()))]);
  }
  IpAddress address() {
    return IpAddress::v4({10, 0, 0, static_cast<std::uint8_t>(below(200) + 1)});
  }
  registry::ExportTo export_to() {
    switch (below(4)) {
      case 0:
        return {"."};
      case 1:
        return {pick(kNamespaces)};
      default:
        return {"*"};
    }
  }

  registry::Resource make(std::uint32_t place) {
    if (place < 22) return entry();
    if (place < 27) return service();
    return sidecar();
  }

  ServiceEntry entry() {
    ServiceEntry entry;
    entry.meta = meta_;
    entry.hosts = {pick(kEntryHosts)};
    entry.export_to = export_to();
    entry.ports = {{80, 0, "http", "HTTP"}};
    if (below(3) == 0) {
      entry.resolution = registry::Resolution::Static;
      entry.addresses = {*IpPrefix::parse(address().to_string())};
      return entry;
    }
    entry.resolution = registry::Resolution::Dns;
    for (std::uint32_t i = 0; i < 1 + below(2); ++i) {
      registry::WorkloadSpec endpoint;
      endpoint.address = below(4) == 0 ? address().to_string() : pick(kNames);
      entry.endpoints.push_back(endpoint);
    }
    return entry;
  }

  KubeService service() {
    KubeService service;
    service.meta = meta_;
    service.meta.name = "web";
    service.ports = {{80, 0, "http", "TCP"}};
    service.export_to = export_to();
    if (below(2) == 0) {
      service.cluster_ips = {address()};
      return service;
    }
    service.type = registry::ServiceType::ExternalName;
    service.external_name = pick(kNames);
    return service;
  }

  registry::Sidecar sidecar() {
    registry::Sidecar sidecar;
    sidecar.meta = meta_;
    if (below(4) == 0) sidecar.meta.ns = "istio-system";
    sidecar.egress.push_back({0, "", {below(2) == 0 ? "./*" : "*/*.example.org"}});
    return sidecar;
  }

  registry::Registry& registry_;
  std::string origin_;
  std::mt19937 random_;
  registry::ObjectMeta meta_;
  std::map<std::uint32_t, registry::ResourceKey> objects_;
};

// A commit lists all that it changes: following the lists gives the same as asking about every name
// after every change, and the rounds come to an end.
TEST(RegistryNamesTest, FollowingTheChangesEqualsAskingAboutAllNames) {
  for (const bool is_authoritative : {false, true})
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      registry::Registry registry({});
      registry.set_sources({.authoritative = is_authoritative});
      Follower follower(registry);
      RandomMesh mesh(registry, seed);
      for (int step = 0; step < 100; ++step) {
        const int commits = follower.follow(mesh.change());
        ASSERT_LE(commits, 12) << "seed " << seed << ", step " << step;
        const auto outdated = follower.outdated();
        ASSERT_TRUE(outdated.empty()) << "seed " << seed << ", step " << step << ": "
                                      << outdated[0].ns << "/" << outdated[0].name;
      }
    }
}

TEST(RegistryNamesTest, TheClientOfLookupsIsAsNewAsTheLastFind) {
  registry::Registry registry({});
  const std::string origin = "test.yaml";
  RegistryNames names(registry);
  const auto has_scope = [&](Millis now) {
    return static_cast<bool>(names.client_for_lookup("shop", now).scope);
  };
  EXPECT_FALSE(has_scope(1'000));
  registry::Sidecar sidecar;
  sidecar.meta.name = "default";
  sidecar.meta.ns = "shop";
  sidecar.egress.push_back({0, "", {"./*"}});
  registry::Transaction transaction;
  transaction.upsert(sidecar, origin, 1);
  registry.commit(std::move(transaction));
  EXPECT_FALSE(has_scope(1'999)) << "not made for each lookup";
  EXPECT_TRUE(has_scope(2'000));
  registry::Transaction removal;
  removal.remove(registry::key_of(sidecar), origin);
  registry.commit(std::move(removal));
  names.find("shop", "a.example.org", "a.example.org");
  EXPECT_FALSE(has_scope(2'001));
}

}  // namespace
}  // namespace meshdns::dnsd
