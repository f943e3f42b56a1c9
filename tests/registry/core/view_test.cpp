// SPDX-License-Identifier: Apache-2.0
#include "registry/view/view.hpp"

#include <gtest/gtest.h>
#include <random>

#include <set>
#include <string>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr const char* kTwoHosts = R"(
ServiceEntry shop/one
spec: { hosts: [one.example.org], addresses: [192.0.2.1], resolution: STATIC }
ServiceEntry shop/two
spec: { hosts: [two.example.org], addresses: [192.0.2.2], resolution: STATIC }
)";

TEST(ViewTest, UsesAGivenEntryForItsOwnNameOnly) {
  TestRegistry registry;
  registry.load(kTwoHosts);
  const auto snapshot = registry.registry().current();
  const HostEntry* const likely = snapshot->find_host("one.example.org");
  ASSERT_NE(likely, nullptr);
  const View view(*snapshot, *snapshot->default_client, likely);
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("one.example.org")), "exact vips 192.0.2.1");
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("two.example.org")), "exact vips 192.0.2.2");
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("three.example.org")), "none");
}

// A host of many namespaces has an index, and its egress hosts are looked for once: the choice is
// the one that a look at each service makes.
TEST(ViewTest, ChoosesAmongManyNamespacesAsAmongFew) {
  std::mt19937 random(7);
  const auto any = [&](std::size_t below) { return random() % below; };
  const auto word = [&](std::initializer_list<const char*> words) {
    return std::string(words.begin()[any(words.size())]);
  };
  for (int round = 0; round < 60; ++round) {
    TestRegistry registry;
    std::string objects;
    const std::size_t count = round % 2 == 0 ? 20 : 80;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      if (any(5) == 0) continue;
      objects
          .append(
              "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: e, "
              "namespace: ns")
          .append(n)
          .append(", creationTimestamp: \"2024-01-0")
          .append(std::to_string(1 + any(9)))
          .append(
              "T00:00:00Z\"}, spec: {hosts: [api.example.org, \"*.wild.example.org\"], "
              "addresses: [10.0.0.")
          .append(n)
          .append("], exportTo: [")
          .append(word({"\"*\"", "\".\"", "web", "web, ns1", "ns2"}))
          .append("], ports: [{number: ")
          .append(word({"80", "90"}))
          .append(", name: p, protocol: TCP}]}}\n---\n");
    }
    const auto hosts = [&] {
      std::string list;
      for (std::size_t i = 1 + any(4); i-- > 0;)
        list += (list.empty() ? "\"" : ", \"") + word({"", "", "", "~"}) +
                word({"*", ".", "ns3", "ns40"}) + "/" +
                word({"*", "api.example.org", "*.example.org", "*.wild.example.org", "*.org"}) +
                "\"";
      return "hosts: [" + list + "]}";
    };
    std::string egress;
    if (any(2) == 0) egress = "{port: {number: 80, protocol: TCP, name: p}, " + hosts();
    if (any(2) == 0) egress += (egress.empty() ? "{" : ", {") + hosts();
    if (!egress.empty())
      objects +=
          "{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, "
          "namespace: web}, spec: {egress: [" +
          egress + "]}}\n";
    registry.load(objects);
    for (const char* ns : {"web", "ns1", "ns2", "ns40"}) {
      registry.be_in(ns);
      const View view = registry.view();
      for (const auto& [name, host] : {std::pair{"api.example.org", "api.example.org"},
                                       {"x.wild.example.org", "*.wild.example.org"}}) {
        const HostEntry* entry =
            host[0] == '*' ? view.snapshot().find_wildcard(std::string_view(host).substr(2))
                           : view.snapshot().find_host(host);
        if (entry == nullptr) continue;
        const ServiceRecord* best = nullptr;
        const auto rank = [&](const ServiceRecord& r) {
          return r.ns == view.client().ns ? 0 : r.is_public() ? 2 : 1;
        };
        for (const ServiceRecord* record : entry->records())
          if (view.sees(entry->host(), *record) && (best == nullptr || rank(*record) < rank(*best)))
            best = record;
        EXPECT_EQ(view.lookup(name).service, best) << name << " for " << ns << "\n" << objects;
      }
    }
  }
}

// An egress host is one thing to match with a walk over all of them and another with an index.
TEST(ViewTest, SidecarsImportServicesThatAnEgressHostMatches) {
  const struct {
    const char* egress;
    const char* seen;  // of the five hosts below, those that are seen
  } rows[] = {
      {R"({hosts: ["*/*"]})", "abcde"},
      {R"({hosts: ["shop/*"]})", "ace"},
      {R"({hosts: ["./*"]})", ""},
      {R"({hosts: ["*/a.example.org"]})", "a"},
      {R"({hosts: ["net/a.example.org", "*/*.x.example.org"]})", "de"},
      {R"({hosts: ["*/*.example.org"]})", "abcde"},
      {R"({hosts: ["*/*.w.x.example.org"]})", "e"},
      {R"({hosts: ["shop/*.example.org", "net/b.example.org"]})", "abce"},
      {R"({port: {number: 90, protocol: TCP, name: t}, hosts: ["*/*"]})", "bd"},
      {R"({port: {number: 90, protocol: HTTP_PROXY, name: t}, hosts: ["*/*"]})", "abcde"},
      {R"({port: {number: 70, protocol: TCP, name: t}, hosts: ["*/*"]}, {port: {number: 80, protocol: TCP, name: u}, hosts: ["*/*"]})",
       "ace"},
      {R"({hosts: ["~*/a.example.org", "~net/*.x.example.org", "*/*"]})", "bce"},
      {R"({hosts: ["~*/*.example.org", "*/*"]})", ""},
  };
  const auto entry = [](const char* name, const char* ns, const char* host, const char* port) {
    return std::string(
               "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: ") +
           name + ", namespace: " + ns + "}, spec: {hosts: [\"" + host +
           "\"], addresses: [10.0.0.1], ports: [{number: " + port +
           ", name: p, protocol: TCP}]}}\n---\n";
  };
  for (const auto& row : rows) {
    TestRegistry registry;
    registry.load(
        entry("a", "shop", "a.example.org", "80") + entry("b", "net", "b.example.org", "90") +
        entry("c", "shop", "c.example.org", "80") + entry("d", "net", "d.x.example.org", "90") +
        entry("e", "shop", "*.w.x.example.org", "80"));
    registry.load(
        std::string("{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: "
                    "default, namespace: web}, spec: {egress: [") +
        row.egress + "]}}");
    registry.be_in("web");
    std::string seen;
    for (const char* name : {"a.example.org", "b.example.org", "c.example.org", "d.x.example.org",
                             "e.w.x.example.org"})
      if (registry.ask(name) != "none") seen += name[0];
    EXPECT_EQ(seen, row.seen) << row.egress;
  }
}

// Names above and below the hosts that a Sidecar imports.
TEST(ViewTest, ANameExistsIfTheSidecarImportsAHostBelowIt) {
  constexpr const char* kServices = R"(
Service shop/api
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http }] }
Service shop/private {annotations: { networking.istio.io/exportTo: "." }}
spec: { clusterIP: 10.96.0.2, ports: [{ port: 80, name: http }] }
ServiceEntry net/deep
spec: { hosts: [a.b.c.cluster.local], addresses: [10.96.0.3], resolution: STATIC }
)";
  const struct {
    const char* egress;
    bool shop;
    bool b_c;
    bool c;
  } rows[] = {
      {R"("*/*")", true, true, true},
      {R"("./*")", false, false, false},
      {R"("shop/*")", true, false, false},
      {R"("net/*")", false, true, true},
      {R"("shop/api.shop.svc.cluster.local")", true, false, false},
      {R"("*/api.shop.svc.cluster.local")", true, false, false},
      {R"("net/api.shop.svc.cluster.local")", false, false, false},
      {R"("shop/private.shop.svc.cluster.local")", false, false, false},
      {R"("shop/missing.shop.svc.cluster.local")", false, false, false},
      {R"("*/*.svc.cluster.local")", true, false, false},
      {R"("*/*.b.c.cluster.local")", false, true, true},
      {R"("shop/*.b.c.cluster.local")", false, false, false},
      {R"("*/*.c.cluster.local")", false, true, true},
      {R"("*/*.org")", false, false, false},
      {R"("~shop/*", "*/*")", false, true, true},
      {R"("~*/*.svc.cluster.local", "*/*")", false, true, true},
      {R"("~*/*", "*/*")", false, false, false},
      {R"("~shop/private.shop.svc.cluster.local", "*/*")", true, true, true},
      {R"("~net/*", "*/*.c.cluster.local")", false, false, false},
  };
  for (const auto& row : rows) {
    TestRegistry registry;
    registry.load(kServices);
    registry.load(
        R"({apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, )"
        R"(namespace: web}, spec: {egress: [{hosts: [)" +
        std::string(row.egress) + "]}]}}");
    registry.be_in("web");
    const auto snapshot = registry.registry().current();
    const View view(*snapshot, *snapshot->default_client);
    EXPECT_EQ(view.namespace_exists("shop"), row.shop) << row.egress;
    EXPECT_EQ(view.is_empty_non_terminal("shop.svc.cluster.local"), row.shop) << row.egress;
    EXPECT_EQ(view.is_empty_non_terminal("b.c.cluster.local"), row.b_c) << row.egress;
    EXPECT_EQ(view.is_empty_non_terminal("c.cluster.local"), row.c) << row.egress;
  }
}

// A listener's port says nothing of names above services: none is denied that may have one below.
TEST(ViewTest, ANameExistsIfAListenerPortMayImportAHostBelowIt) {
  TestRegistry registry;
  registry.load(R"(
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, namespace: web}, spec: {egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ["*/*"]}]}}
)");
  registry.be_in("web");
  const auto snapshot = registry.registry().current();
  const View view(*snapshot, *snapshot->default_client);
  EXPECT_EQ(registry.ask("api.shop.svc.cluster.local"), "exact vips 10.96.0.1");
  EXPECT_TRUE(view.namespace_exists("shop"));
}

TEST(ViewTest, ANameDisappearsWithTheLastHostBelowIt) {
  TestRegistry registry;
  registry.be_in("web");
  const auto is_there = [&] {
    const auto snapshot = registry.registry().current();
    return View(*snapshot, *snapshot->default_client).namespace_exists("shop");
  };
  const auto service = [](std::string_view name, std::string_view exports) {
    return "{apiVersion: v1, kind: Service, metadata: {name: " + std::string(name) +
           ", namespace: shop, annotations: {networking.istio.io/exportTo: \"" +
           std::string(exports) + "\"}}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}";
  };
  registry.load(service("a", "."));
  EXPECT_FALSE(is_there());
  registry.load(service("b", "web"));
  EXPECT_TRUE(is_there());
  registry.load(service("a", "web"));
  registry.load(service("b", "."));
  EXPECT_TRUE(is_there());
  registry.remove({Kind::Service, "", "shop", "a"});
  EXPECT_FALSE(is_there());
}

// --- names of a name table -----------------------------------------------------------------------

// The names that istio-agent makes of a host (pkg/dns/client, generateAltHosts).
std::vector<std::string> names_of_agent(const NameTableEntry& entry, std::string_view client_ns) {
  std::vector<std::string> names = {entry.meta.name, entry.short_name + "." + entry.meta.ns,
                                    entry.short_name + "." + entry.meta.ns + ".svc"};
  if (entry.meta.ns == client_ns) names.push_back(entry.short_name);
  return names;
}

NameTableEntry table_entry(std::string short_name, std::string ns, const std::string& address) {
  NameTableEntry entry;
  entry.meta.name = short_name + "." + ns + ".svc.cluster.local";
  entry.meta.ns = std::move(ns);
  entry.kubernetes = true;
  entry.short_name = std::move(short_name);
  entry.ips = {*IpAddress::parse(address)};
  return entry;
}

TEST(ViewTest, NamesOfATableAreThoseOfIstioAgentMembersOfHeadlessServicesAmongThem) {
  const std::vector<NameTableEntry> table = {
      table_entry("web", "shop", "10.96.0.1"), table_entry("db", "ns1", "10.1.0.1"),
      table_entry("pod1.db", "ns1", "10.1.0.1"), table_entry("pod2.db", "ns1", "10.1.0.2"),
      table_entry("pod1.kafka", "shop", "10.1.0.3")};
  std::set<std::string> asked;
  for (const auto& entry : table)
    for (const std::string_view ns : {"ns1", "shop", "other"})
      for (const auto& name : names_of_agent(entry, ns)) asked.insert(name);
  asked.insert({"pod3.db.ns1", "pod1.db.shop", "pod1.kafka.ns1.svc", "pod1", "x.pod1.db.ns1",
                "pod1.db.svc", "pod1.db.ns1.svc.cluster"});
  for (const std::string ns : {"ns1", "shop", "other"}) {
    TestRegistry r;
    r.add({table.begin(), table.end()});
    r.be_in(ns);
    for (const auto& name : asked) {
      std::set<std::string> expected;
      for (const auto& entry : table)
        for (const auto& own : names_of_agent(entry, ns))
          if (own == name) expected.insert(entry.ips[0].to_string());
      const View view = r.view();
      const Match match = view.lookup(name);
      std::set<std::string> found;
      if (match && match.how != Match::How::Below)
        for (const auto& a : view.addresses(*match.service).v4)
          found.insert(IpAddress::v4(a).to_string());
      EXPECT_EQ(found, expected) << name << " for " << ns;
    }
  }
}

// As for members that are endpoints (ClaimsTest).
TEST(ViewTest, NoEntryOfAnotherNamespaceTakesTheShortNameOfAMemberInATable) {
  const std::string entry = R"(
ServiceEntry evil/e
spec: { hosts: [pod1.db.ns1, pod1.db.ns1.svc, pod1.db], addresses: [10.6.6.6], resolution: STATIC }
)";
  for (const bool is_entry_first : {true, false}) {
    TestRegistry r;
    if (is_entry_first) r.load(entry);
    r.add({table_entry("pod1.db", "ns1", "10.1.0.1")});
    if (!is_entry_first) r.load(entry);
    r.be_in("ns1");
    for (const auto& name : {"pod1.db.ns1", "pod1.db.ns1.svc", "pod1.db"})
      EXPECT_EQ(r.ask(name), "short name vips 10.1.0.1") << name;
    // Nobody else has the short name then.
    r.remove({Kind::NameTableEntry, "", "ns1", "pod1.db.ns1.svc.cluster.local"});
    EXPECT_EQ(r.ask("pod1.db.ns1"), "exact vips 10.6.6.6");
  }
}

}  // namespace
}  // namespace meshdns::registry
