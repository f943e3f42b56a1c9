// SPDX-License-Identifier: Apache-2.0
// The questions that a walk along the search domains sends upstream; tests/scenarios/search has the
// answers (docs/semantics-istio.md, "Search names").
//
// MESHDNS_WALKS sets the number of random walks.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class SearchTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    be_in("shop");
    load(R"(
Namespace /shop
)");
  }
  void walk(std::vector<std::string> search) {
    registry::MeshSettings settings;
    settings.search_shortcut = registry::SearchShortcut::All;
    configure(settings);
    registry::ClientIdentity identity;
    identity.ns = "shop";
    identity.search = std::move(search);
    registry_.be(identity);
  }
};

TEST_F(SearchTest, WalkCostsOneQuestionUpstreamForEachOutsideDomainAndTheName) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"});
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., www.example.net. 60 "
            "A 192.0.2.1");
  EXPECT_EQ(upstream_.asked, std::vector<std::string>{"www.example.net. A"});
  // the family that it lacks is empty, not missing: musl would drop the good one
  upstream_.replies["www.example.net. AAAA"] = {
      .authority = {"example.net. 30 SOA ns.example.net."}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. AAAA"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., @ example.net. SOA");
}

TEST_F(SearchTest, WalkThatFindsNothingIsOneNameError) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"});
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(upstream_.asked,
            (std::vector<std::string>{"www.example.net.corp.example. A", "www.example.net. A"}));
}

TEST_F(SearchTest, WalkAsksAtMostEightQuestions) {
  std::vector<std::string> domains;
  for (int i = 0; i < 20; ++i) domains.push_back("d" + std::to_string(i) + ".example");
  domains.insert(domains.begin(), "shop.svc.cluster.local");
  registry_.registry().set_sources({});
  walk(domains);
  EXPECT_EQ(ask_through("x.eu.shop.svc.cluster.local. A"), "not aa, NXDOMAIN, @ . SOA");
  EXPECT_EQ(upstream_.asked.size(), 8U);
}

TEST_F(SearchTest, WalkThatIsNotTriedToItsEndLeavesOurOwnNameError) {
  std::vector<std::string> domains = {"shop.svc.cluster.local"};
  for (int i = 0; i < 20; ++i) domains.push_back("d" + std::to_string(i) + ".example");
  walk(domains);
  EXPECT_EQ(ask_through("x.eu.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(upstream_.asked.size(), 8U);
}

TEST_F(SearchTest, AnAbsoluteNameHasNoSearchAlias) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"});
  load_api();
  publish();
  const registry::Snapshot& snapshot = *publisher_->current();
  const registry::View view(snapshot, *snapshot.default_client);
  Asked asked{.name = "api.example.org.shop.svc.cluster.local"};
  EXPECT_EQ(decide(view, asked).verdict, dnsd::Verdict::SearchAlias);
  asked.is_absolute = true;
  EXPECT_EQ(decide(view, asked).verdict, dnsd::Verdict::NxDomain);
}

// --- the same end with every mode ----------------------------------------------------------------

// A world of few labels, so that its names lie in each other's search paths.
class WalkWorld : public QueryFixture {
 public:
  explicit WalkWorld(std::mt19937_64& random) : random_(random) {
    be_authority();
    add_services();
    add_entries();
    for (const char* const name : kOutside)
      if (one_in(2)) upstream_.replies[std::string(name) + ". A"] = {.answer = {record_of(name)}};
  }

  void be_client(registry::SearchShortcut mode, const std::string& ns,
                 const std::vector<std::string>& search) {
    registry::MeshSettings settings;
    settings.search_shortcut = mode;
    configure(settings);
    registry::ClientIdentity identity;
    identity.ns = ns;
    identity.search = search;
    registry_.be(identity);
    search_ = search;
  }

  // The walk of a stub resolver with ndots:5, and what it led to.
  struct End {
    std::set<std::string> addresses;
    bool is_outside = false;         // the last answer came from the upstream
    std::set<std::string> upstream;  // the questions that it was asked
  };
  End walk(const std::string& name) {
    End end;
    upstream_.asked.clear();
    for (const auto& domain : search_)
      if (ask_step(std::string(name).append(".").append(domain), end)) break;
    if (end.addresses.empty()) ask_step(name, end);
    end.upstream.insert(upstream_.asked.begin(), upstream_.asked.end());
    return end;
  }
  // Whether the registry answers for the name itself.
  bool knows(const std::string& name) {
    End end;
    return ask_step(name, end) && !end.is_outside;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  const char* namespace_of_client() { return kNamespaces[below(std::size(kNamespaces))]; }

  // Names that programs use: hosts, short and full names of Services, outside names.
  static constexpr const char* kNames[] = {"api",
                                           "db",
                                           "api.dev",
                                           "db.dev",
                                           "api.shop",
                                           "www.example.net",
                                           "x.ex",
                                           "x.set",
                                           "x.ex.shop",
                                           "web.com",
                                           "api.dev.svc",
                                           "api.dev.corp.example",
                                           "api.dev.svc.cluster.local",
                                           "db.dev.svc.cluster.local",
                                           "api.shop.svc.cluster.local",
                                           "x.ex.shop.svc.cluster.local",
                                           "x.set.shop.svc.cluster.local",
                                           "api.shop.svc.clusterset.local",
                                           "db.dev.shop.svc.cluster.local"};

 private:
  static constexpr const char* kNamespaces[] = {"shop", "dev", "bank"};
  static constexpr const char* kOutside[] = {"api",
                                             "api.dev",
                                             "db.dev",
                                             "api.shop",
                                             "www.example.net",
                                             "x.ex",
                                             "x.set",
                                             "x.ex.shop",
                                             "web.com",
                                             "api.dev.corp.example",
                                             "db.dev.corp.example",
                                             "www.example.net.corp.example",
                                             "www.example.net.dev",
                                             "api.shop.svc",
                                             "db.corp.example"};
  static constexpr const char* kHosts[] = {"api",
                                           "api.dev",
                                           "*.dev",
                                           "db.dev",
                                           "api.shop",
                                           "www.example.net",
                                           "x.ex",
                                           "*.corp.example",
                                           "db.dev.corp.example",
                                           "api.dev.corp.example",
                                           "api.dev.svc.cluster.local",
                                           "db.dev.svc.cluster.local",
                                           "db.dev.cluster.local",
                                           "www.example.net.svc.cluster.local",
                                           "www.example.net.bank.svc.cluster.local",
                                           "*.shop.svc.cluster.local",
                                           "api.dev.svc.dev"};

  void TestBody() override {}
  std::string record_of(const char* name) {
    return std::string(name) + ". 60 A 203.0.113." + std::to_string(++outside_);
  }
  void add_services() {
    std::string text;
    for (const char* const ns : kNamespaces) {
      if (!one_in(4))
        text +=
            "---\nkind: Namespace\napiVersion: v1\nmetadata: {name: " + (ns + std::string("}\n"));
      for (const char* const name : {"api", "db", "com", "dev"})
        if (one_in(3))
          text += service(name, ns, "{clusterIP: 10.96.0." + next() + ", ports: [{port: 80}]}");
      if (one_in(2))
        text += service("ex", ns, "{type: ExternalName, externalName: www.example.net}");
      if (one_in(2)) {
        text += service("set", ns, "{clusterIP: None, ports: [{port: 80}]}");
        if (one_in(2))
          text +=
              "---\nkind: EndpointSlice\napiVersion: discovery.k8s.io/v1\nmetadata: {name: set, "
              "namespace: " +
              std::string(ns) +
              ", labels: {kubernetes.io/service-name: set}}\naddressType: IPv4\n"
              "endpoints: [{addresses: [10.1.0." +
              next() +
              "], hostname: x, conditions: {ready: true}}]\n"
              "ports: [{port: 80}]\n";
      }
    }
    load(text);
  }
  void add_entries() {
    for (std::size_t i = below(7); i > 0; --i) {
      std::string host = kHosts[below(std::size(kHosts))];
      load("kind: ServiceEntry\napiVersion: networking.istio.io/v1\nmetadata: {name: e" + next() +
           ", namespace: " + namespace_of_client() + "}\nspec: {hosts: [\"" + host +
           "\"], addresses: [10.10.0." + next() + "], resolution: STATIC, exportTo: [\"" +
           (one_in(4) ? "." : "*") + "\"]}\n");
    }
  }
  std::string service(const char* name, const char* ns, const std::string& spec) {
    return std::string("---\nkind: Service\napiVersion: v1\nmetadata: {name: ") + name +
           ", namespace: " + ns +
           (one_in(4) ? ", annotations: {networking.istio.io/exportTo: \".\"}" : "") +
           "}\nspec: " + spec + "\n";
  }
  std::string next() { return std::to_string(++inside_); }

  bool ask_step(const std::string& name, End& end) {
    ask_through(name + ". A");
    end.is_outside = false;
    for (const auto& record : message_.answer)
      if (record.type == wire::Type::A)
        end.addresses.insert(
            wire::record_to_text(record).substr(wire::record_to_text(record).rfind(' ') + 1));
    for (const auto& address : end.addresses) end.is_outside |= address.starts_with("203.");
    return !end.addresses.empty();
  }

  std::mt19937_64& random_;
  int inside_ = 0;
  int outside_ = 0;
  std::vector<std::string> search_;
};

std::vector<std::string> search_list(WalkWorld& world, const std::string& ns) {
  std::vector<std::string> list = {ns + ".svc.cluster.local", "svc.cluster.local", "cluster.local"};
  for (const char* const domain : {"corp.example", "dev", "other.example"})
    if (world.one_in(2)) list.insert(world.one_in(4) ? list.begin() : list.end(), domain);
  if (world.one_in(4)) std::swap(list[world.below(list.size())], list[world.below(list.size())]);
  if (world.one_in(8)) list.push_back(list[world.below(list.size())]);
  return list;
}

// Whether the name, or a later step of its walk, is also the first step of a walk for a name of
// several labels: no answer is right for both.
bool is_ambiguous(const std::string& name, const std::vector<std::string>& search) {
  const auto is_first_step = [&](std::string_view step) {
    return is_below(step, search[0]) &&
           step.substr(0, step.size() - search[0].size() - 1).contains('.');
  };
  return is_first_step(name) || std::ranges::any_of(search, [&](const std::string& domain) {
           return domain != search[0] && is_first_step(name + "." + domain);
         });
}

// Whether the name has a domain of the outside behind a name that the registry knows: it leads
// there, though an upstream could have the name as well.
bool hides_an_outside_name(WalkWorld& world, const std::string& name,
                           const std::vector<std::string>& search) {
  return std::ranges::any_of(search, [&](const std::string& domain) {
    return !is_at_or_below(domain, "cluster.local") && is_below(name, domain) &&
           world.knows(name.substr(0, name.size() - domain.size() - 1));
  });
}

// `mesh.search_shortcut` saves questions; it changes no end of a walk, and no walk asks an upstream
// for a name that the client's own walk would not.
TEST(SearchWalkTest, EndsWhereTheWalkOfAStubResolverEnds) {
  const char* const wanted = std::getenv("MESHDNS_WALKS");
  const long walks = wanted == nullptr ? 2'000 : std::atol(wanted);
  std::mt19937_64 random(20261127);
  long compared = 0;
  long found = 0;
  while (compared < walks && !testing::Test::HasFailure()) {
    WalkWorld world(random);
    const std::string ns = world.namespace_of_client();
    const std::vector<std::string> search = search_list(world, ns);
    std::map<std::string, WalkWorld::End> expected;
    world.be_client(registry::SearchShortcut::Off, ns, search);
    for (const std::string name : WalkWorld::kNames) {
      if (is_ambiguous(name, search) || hides_an_outside_name(world, name, search)) continue;
      const WalkWorld::End end = world.walk(name);
      // A name that only an upstream could have does not hide one that the registry has.
      if (!end.is_outside || !world.knows(name)) expected[name] = end;
    }
    for (const auto mode : {registry::SearchShortcut::Known, registry::SearchShortcut::All}) {
      world.be_client(mode, ns, search);
      for (const auto& [name, end] : expected) {
        const WalkWorld::End got = world.walk(name);
        EXPECT_EQ(got.addresses, end.addresses)
            << name << " in mode " << static_cast<int>(mode) << " for "
            << testing::PrintToString(search) << ", upstream asked "
            << testing::PrintToString(got.upstream);
        EXPECT_TRUE(std::ranges::includes(end.upstream, got.upstream))
            << name << " in mode " << static_cast<int>(mode) << " for "
            << testing::PrintToString(search) << " asks " << testing::PrintToString(got.upstream)
            << " instead of " << testing::PrintToString(end.upstream) << " for "
            << testing::PrintToString(end.addresses);
        ++compared;
        found += end.addresses.empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(found * 4, compared);
}

}  // namespace
}  // namespace meshdns::dnsd
