// SPDX-License-Identifier: Apache-2.0
// Claims to names and addresses: each row of the table, in both modes.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>

#include "registry/model/name_owners.hpp"
#include "registry/traffic/traffic_match.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

using ::testing::Contains;
using ::testing::Field;

std::string entry_text(std::string_view name, std::string_view ns, std::string_view hosts,
                       std::string_view address, std::string_view more = "") {
  return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " +
         std::string(name) + ", namespace: " + std::string(ns) + "}\nspec: {hosts: [\"" +
         std::string(hosts) + "\"], addresses: [\"" + std::string(address) +
         "\"], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, "
         "name: tcp, protocol: TCP}]" +
         std::string(more) + "}\n---\n";
}

std::string service_text(std::string_view name, std::string_view ns, std::string_view ip,
                         std::string_view metadata = "") {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + std::string(name) +
         ", namespace: " + std::string(ns) + std::string(metadata) + "}\nspec: {clusterIP: \"" +
         std::string(ip) + "\", ports: [{name: http, port: 80}]}\n---\n";
}

std::string slice_text(std::string_view of, std::string_view ns, std::string_view address) {
  return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: " +
         std::string(of) + "-1, namespace: " + std::string(ns) +
         ", labels: {kubernetes.io/service-name: " + std::string(of) +
         "}}\naddressType: IPv4\nports: [{name: http, port: 80}]\nendpoints: [{addresses: [" +
         std::string(address) + "]}]\n---\n";
}

std::string pod_text(std::string_view name, std::string_view ns, std::string_view ip) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + std::string(name) +
         ", namespace: " + std::string(ns) +
         "}\nspec: {}\nstatus: {phase: Running, podIP: " + std::string(ip) + "}\n---\n";
}

MeshSettings settings_with(Claims claims) {
  MeshSettings settings;
  settings.claims = claims;
  return settings;
}

const std::string kBankText = "Namespace /bank\n---\n" + service_text("db", "bank", "10.96.0.1");

// --- the table

TEST(ClaimRulesTest, EachClaimHasItsRowInOrder) {
  for (std::size_t i = 0; i < claim_rules().size(); ++i) {
    const ClaimRule& rule = claim_rules()[i];
    EXPECT_EQ(static_cast<std::size_t>(rule.claim), i);
    EXPECT_EQ(&rule_of(rule.claim), &rule);
    EXPECT_LE(rule.istio, rule.strict) << rule.about << ": strict allows no more than istio";
  }
}

TEST(ClaimRulesTest, TheDocumentShowsTheTable) {
  std::ifstream in(MESHDNS_SOURCE_DIR "/docs/security.md");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (const ClaimRule& rule : claim_rules()) {
    const std::string row = "| " + std::string(rule.object) + " | " + std::string(rule.about) +
                            " | " + std::string(to_string(rule.istio)) + " | " +
                            std::string(to_string(rule.strict)) + " | " +
                            (rule.root_is_exempt ? "yes" : "no") + " |\n";
    EXPECT_NE(text.find(row), std::string::npos) << "docs/security.md has no row\n" << row;
  }
}

TEST(ClaimRulesTest, OnlyTheRootNamespaceIsExempt) {
  const MeshSettings strict = settings_with(Claims::Strict);
  EXPECT_EQ(ruling_of(Claim::ClusterName, "evil", strict), Ruling::Refused);
  EXPECT_EQ(ruling_of(Claim::ClusterName, "istio-system", strict), Ruling::Allowed);
  EXPECT_EQ(ruling_of(Claim::OthersShortName, "istio-system", strict), Ruling::Yields);
  EXPECT_EQ(ruling_of(Claim::ReverseOfClusterAddress, "istio-system", strict), Ruling::Refused);
}

// --- names

TEST(ClaimsTest, FindsTheOwnerOfAHostName) {
  NameOwners owners;
  for (const auto& resource : parse(kBankText + service_text("web", "shop", "10.96.0.2")))
    owners.add(resource, [](std::string_view) {});
  struct Case {
    std::string_view host;
    Claim claim;
  };
  const Case cases[] = {
      {"api.example.org", Claim::OutsideName},
      {"*.example.org", Claim::OutsideName},
      {"example.org", Claim::OutsideName},
      {"bank.example.org", Claim::OutsideName},
      {"db", Claim::TopLevelName},
      {"*.com", Claim::TopLevelName},
      {"*.bank", Claim::TopLevelName},
      {"*.svc", Claim::TopLevelName},
      {"db.bank", Claim::OthersShortName},
      {"none.bank", Claim::OthersShortName},
      {"*.db.bank", Claim::OthersShortName},
      {"db-0.db.bank", Claim::OthersShortName},
      {"x.none.bank", Claim::OutsideName},
      {"db.bank.svc", Claim::OthersShortName},
      {"*.bank.svc", Claim::OthersShortName},
      {"x.unknown.svc", Claim::OthersShortName},
      {"10-0-0-1.bank.pod", Claim::OthersShortName},
      {"x.evil", Claim::OutsideName},
      {"x.evil.svc", Claim::OutsideName},
      {"db.bank.svc.cluster.local", Claim::ClusterName},
      {"x.evil.svc.cluster.local", Claim::ClusterName},
      {"db.bank.web.svc.cluster.local", Claim::ClusterName},
      {"10-0-0-1.bank.pod.cluster.local", Claim::ClusterName},
      {"*.svc.cluster.local", Claim::ClusterName},
      {"*.cluster.local", Claim::ClusterName},
      {"cluster.local", Claim::ClusterName},
      {"*.local", Claim::ClusterName},
      {"db.bank.svc.clusterset.local", Claim::ClusterName},
      {"*.clusterset.local", Claim::ClusterName},
      {"db.bank.svc.cluster2.local", Claim::ClusterName},
      {"*.svc.cluster2.local", Claim::ClusterName},
      {"*.cluster2.local", Claim::ClusterName},
      {"printer.local", Claim::OutsideName},
      {"db.bank.svc.east.example.net", Claim::ClusterName},
      {"db.other.svc.east.example.net", Claim::OutsideName},
      {"x.svc.ms", Claim::OutsideName},
      {"localhost", Claim::ReservedName},
      {"x.localhost", Claim::ReservedName},
      {"1.0.96.10.in-addr.arpa", Claim::ReservedName},
      {"*.ip6.arpa", Claim::ReservedName},
      {"*.arpa", Claim::ReservedName},
  };
  for (const auto& c : cases)
    EXPECT_EQ(static_cast<int>(claim_of(c.host, "evil", settings_with(Claims::Strict), owners)),
              static_cast<int>(c.claim))
        << c.host;
  EXPECT_EQ(claim_of("db.bank", "bank", settings_with(Claims::Strict), owners), Claim::OutsideName);
  EXPECT_EQ(claim_of("db.bank.svc", "bank", settings_with(Claims::Strict), owners),
            Claim::OutsideName);
  for (const std::string_view own :
       {"db.bank.svc.east.example.net", "x.db.bank", "10-0-0-1.bank.pod"})
    EXPECT_EQ(claim_of(own, "bank", settings_with(Claims::Strict), owners), Claim::OutsideName)
        << own;
  MeshSettings deep = settings_with(Claims::Strict);
  deep.cluster_domain = "k8s.example.com";
  EXPECT_EQ(claim_of("*.example.com", "evil", deep, owners), Claim::ClusterName);
  EXPECT_EQ(claim_of("www.example.com", "evil", deep, owners), Claim::OutsideName);
}

// Every spelling by which another namespace's entry could come between a client and bank/db.
const std::vector<std::string> kTakeovers = {
    "db.bank",
    "db.bank.svc",
    "*.bank",
    "*.bank.svc",
    "*.svc",
    "db.bank.web.svc.cluster.local",
    "*.svc.cluster.local",
    "*.cluster.local",
    "*.web.svc.cluster.local",
    "DB.bank",
    "db.bank.svc.",
    "db.bank.cluster.local",
};

TEST(ClaimsTest, NoEntryOfAnotherNamespaceTakesAShortNameInAnyMode) {
  for (const Claims mode : {Claims::Istio, Claims::Strict})
    for (const auto& host : kTakeovers)
      for (const std::string_view client : {"web", "bank", "evil"}) {
        TestRegistry r(settings_with(mode));
        r.load(entry_text("e", "evil", host, "10.6.6.6") + kBankText);
        r.be_in(std::string(client));
        SCOPED_TRACE(host + " for " + std::string(client));
        EXPECT_EQ(r.ask("db.bank"), "short name vips 10.96.0.1");
        EXPECT_EQ(r.ask("db.bank.svc"), "short name vips 10.96.0.1");
        EXPECT_EQ(r.ask("db.bank.svc.cluster.local"), "exact vips 10.96.0.1");
        const View view = r.view();
        const std::string expansion = "db.bank." + std::string(client) + ".svc.cluster.local";
        EXPECT_EQ(r.ask(expansion), "none");
        const Match found = view.lookup(view.name_without_domain(expansion));
        EXPECT_EQ(TestRegistry::describe(view, found), "short name vips 10.96.0.1");
      }
}

TEST(ClaimsTest, StrictRefusesTakeoversEvenBeforeTheServiceExists) {
  const std::string bank = "Namespace /bank\n---\n";
  for (const auto& host : kTakeovers) {
    TestRegistry r(settings_with(Claims::Strict));
    const auto summary = r.load(entry_text("e", "evil", host, "10.6.6.6") + bank);
    ASSERT_EQ(summary.refused.size(), 1U) << host;
    EXPECT_NE(summary.refused[0].reason.find("mesh.claims: strict"), std::string::npos);
    for (const std::string_view client : {"web", "bank", "evil"}) {
      r.be_in(std::string(client));
      for (const std::string_view name :
           {"db.bank", "db.bank.svc", "db.bank.svc.cluster.local", "db.bank.web.svc.cluster.local"})
        EXPECT_EQ(r.ask(name), "none") << host << ", asked for " << name << " by " << client;
    }
  }
}

TEST(ClaimsTest, TheNamespacesOwnEntryMayHaveItsShortNames) {
  for (const Claims mode : {Claims::Istio, Claims::Strict}) {
    TestRegistry r(settings_with(mode));
    r.load(entry_text("e", "bank", "old.bank", "10.0.0.1") + kBankText);
    EXPECT_EQ(r.ask("old.bank"), "exact vips 10.0.0.1");
  }
}

TEST(ClaimsTest, AServiceThatTheClientDoesNotSeeShadowsNothing) {
  TestRegistry r;
  r.load(entry_text("e", "evil", "db.bank", "10.6.6.6") +
         service_text("db", "bank", "10.96.0.1",
                      ", annotations: {networking.istio.io/exportTo: \".\"}"));
  r.be_in("web");
  EXPECT_EQ(r.ask("db.bank"), "exact vips 10.6.6.6");
  r.be_in("bank");
  EXPECT_EQ(r.ask("db.bank"), "short name vips 10.96.0.1");
}

// A search list asks for "db.bank.svc.cluster.local" before "db".
TEST(ClaimsTest, AHostOfOneLabelComesBeforeAShortNameUnlessStrict) {
  for (const Claims mode : {Claims::Istio, Claims::Strict}) {
    TestRegistry r(settings_with(mode));
    r.load(entry_text("e", "evil", "db", "10.6.6.6") + kBankText);
    r.be_in("bank");
    EXPECT_EQ(r.ask("db"),
              mode == Claims::Istio ? "exact vips 10.6.6.6" : "short name vips 10.96.0.1");
    EXPECT_EQ(r.ask("db.bank.svc.cluster.local"), "exact vips 10.96.0.1");
  }
}

// A resolver appends one search domain; a client does not query "example.com.web".
TEST(ClaimsTest, AHostNamedAfterANamespaceDoesNotHideOutsideNames) {
  for (const std::string_view host : {"example.com.web", "*.com.web", "*.web"}) {
    TestRegistry r;
    r.load(entry_text("e", "evil", host, "10.6.6.6"));
    r.be_in("web");
    const View view = r.view();
    EXPECT_EQ(view.name_without_domain("example.com.web.svc.cluster.local"), "example.com");
    EXPECT_FALSE(view.lookup("example.com")) << host;
  }
}

TEST(ClaimsTest, PortsOfAShortNameBelongToTheService) {
  TestRegistry r;
  r.load(entry_text("e", "evil", "db.bank", "10.6.6.6") + kBankText);
  EXPECT_EQ(r.ask("_http._tcp.db.bank"), "below vips [_http._tcp] 10.96.0.1");
}

TEST(ClaimsTest, StrictAppliesToEntriesOfANameTable) {
  const auto table = [](std::string host, bool kubernetes) {
    NameTableEntry name;
    name.meta.name = std::move(host);
    name.meta.ns = "evil";
    name.kubernetes = kubernetes;
    name.ips = {*IpAddress::parse("10.6.6.6")};
    return Resource(name);
  };
  for (const auto& host : {"db.bank", "x.svc.cluster.local", "*.com"}) {
    TestRegistry r(settings_with(Claims::Strict));
    r.load(kBankText);
    EXPECT_EQ(r.add({table(host, false)}).refused.size(), 1U) << host;
    EXPECT_EQ(r.add({table(host, true)}).refused.size(), 0U) << host;
  }
  // A Service that only the name table has gets its short name, too.
  TestRegistry r(settings_with(Claims::Strict));
  NameTableEntry db;
  db.meta.name = "db.bank.svc.cluster.local";
  db.meta.ns = "bank";
  db.short_name = "db";
  db.kubernetes = true;
  r.add({db});
  EXPECT_EQ(r.add({table("db.bank", false)}).refused.size(), 1U);
}

TEST(ClaimsTest, OutsideNamesAreNotAffected) {
  TestRegistry r(settings_with(Claims::Strict));
  EXPECT_TRUE(r.load(kBankText + entry_text("a", "web", "api.example.org", "10.0.0.1") +
                     entry_text("w", "web", "*.wild.example.org", "10.0.0.2") +
                     entry_text("r", "istio-system", "*.com", "10.0.0.3"))
                  .refused.empty());
  EXPECT_EQ(r.ask("api.example.org"), "exact vips 10.0.0.1");
  EXPECT_EQ(r.ask("x.wild.example.org"), "wildcard vips 10.0.0.2");
  EXPECT_EQ(r.ask("example.com"), "wildcard vips 10.0.0.3");
}

// --- addresses

std::string reverse_names(TestRegistry& r, std::string_view address) {
  std::string text;
  for (const auto& name : r.view().reverse(*IpAddress::parse(address)))
    text += (text.empty() ? "" : " ") + name.name;
  return text;
}

TEST(ClaimsTest, ReverseNamesFollowTheTable) {
  const std::string objects =
      kBankText + service_text("peers", "bank", "None") + slice_text("peers", "bank", "10.4.0.1") +
      pod_text("peer", "bank", "10.4.0.1") + pod_text("lonely", "bank", "10.4.0.2") +
      entry_text("a", "evil", "cluster-ip.example.org", "10.96.0.1") +
      entry_text("b", "evil", "endpoint.example.org", "10.4.0.1") +
      entry_text("c", "evil", "pod.example.org", "10.4.0.2") +
      entry_text("d", "evil", "outside.example.org", "192.0.2.1") +
      entry_text("r", "istio-system", "root.example.org", "192.0.2.2") +
      entry_text("s", "istio-system", "root-pod.example.org", "10.4.0.2") +
      // a Service without selector, whose endpoints a namespace writes itself
      service_text("fake", "evil", "None") + slice_text("fake", "evil", "10.4.0.2") +
      service_text("fake2", "evil", "None") + slice_text("fake2", "evil", "10.96.0.1") +
      service_text("mine", "evil", "None") + slice_text("mine", "evil", "192.0.2.9");
  struct Case {
    Claims mode;
    std::string_view client, address, names;
  };
  const Case cases[] = {
      {Claims::Strict, "web", "10.96.0.1", "db.bank.svc.cluster.local"},
      {Claims::Strict, "evil", "10.96.0.1", "db.bank.svc.cluster.local"},
      {Claims::Strict, "web", "10.4.0.1", "10-4-0-1.peers.bank.svc.cluster.local"},
      {Claims::Strict, "evil", "10.4.0.1", "10-4-0-1.peers.bank.svc.cluster.local"},
      {Claims::Strict, "web", "10.4.0.2", ""},
      {Claims::Strict, "evil", "10.4.0.2", ""},
      {Claims::Strict, "web", "192.0.2.1", ""},
      {Claims::Strict, "evil", "192.0.2.1", "outside.example.org"},
      {Claims::Strict, "web", "192.0.2.2", "root.example.org"},
      {Claims::Strict, "web", "192.0.2.9", ""},
      {Claims::Strict, "evil", "192.0.2.9", "192-0-2-9.mine.evil.svc.cluster.local"},
      {Claims::Istio, "web", "192.0.2.9", "192-0-2-9.mine.evil.svc.cluster.local"},
      {Claims::Istio, "web", "192.0.2.1", "outside.example.org"},
      // in no mode does an entry hide the Pod's own name
      {Claims::Istio, "web", "10.4.0.1",
       "10-4-0-1.peers.bank.svc.cluster.local endpoint.example.org"},
      {Claims::Istio, "web", "10.96.0.1", "db.bank.svc.cluster.local cluster-ip.example.org"},
  };
  for (const auto& c : cases) {
    TestRegistry r(settings_with(c.mode));
    r.load(objects);
    r.be_in(std::string(c.client));
    EXPECT_EQ(reverse_names(r, c.address), c.names)
        << c.address << " for " << c.client << (c.mode == Claims::Strict ? ", strict" : "");
  }
}

TEST(ClaimsTest, ManyClaimsDoNotDisplaceTheOwnersName) {
  std::string objects = kBankText + service_text("peers", "bank", "None") +
                        slice_text("peers", "bank", "10.4.0.1") +
                        pod_text("peer", "bank", "10.4.0.1");
  for (int i = 0; i < 600; ++i) {
    const std::string name = "a" + std::to_string(i);
    objects +=
        entry_text(name, "evil", name + ".evil.example", "10.96.0.1\", \"10.4.0.1\", \"192.0.2.1");
    objects += service_text(name, "evil", "None") + slice_text(name, "evil", "10.4.0.1");
  }
  objects += entry_text("own", "web", "own.web.example", "192.0.2.1");
  for (const Claims mode : {Claims::Istio, Claims::Strict}) {
    TestRegistry r(settings_with(mode));
    r.load(objects);
    r.be_in("web");
    const auto first = [&](std::string_view address) {
      const auto names = r.view().reverse(*IpAddress::parse(address));
      EXPECT_LE(names.size(), View::kMaxReverseNames);
      View::ReverseLooks looks;
      EXPECT_TRUE(r.view().has_reverse(*IpAddress::parse(address), looks));
      EXPECT_FALSE(looks.are_spent());
      return names;
    };
    EXPECT_EQ(first("10.96.0.1").front().name, "db.bank.svc.cluster.local");
    EXPECT_THAT(first("10.4.0.1"),
                Contains(Field(&View::ReverseName::name, "10-4-0-1.peers.bank.svc.cluster.local")));
    EXPECT_THAT(first("192.0.2.1"), Contains(Field(&View::ReverseName::name, "own.web.example")));
    if (mode == Claims::Strict) {
      EXPECT_EQ(reverse_names(r, "10.96.0.1"), "db.bank.svc.cluster.local");
      EXPECT_EQ(reverse_names(r, "10.4.0.1"), "10-4-0-1.peers.bank.svc.cluster.local");
      EXPECT_EQ(reverse_names(r, "192.0.2.1"), "own.web.example");
    }
  }
}

// The other namespace has 150 Services with the address.
TEST(ClaimsTest, OthersTakeNoReverseNameOfTheOutsideFromANamespace) {
  std::string objects = entry_text("own", "bank", "own.bank.example", "192.0.2.77");
  for (int i = 0; i < 150; ++i) {
    const std::string name = "s" + std::to_string(i);
    objects += service_text(name, "evil", "None") + slice_text(name, "evil", "192.0.2.77");
  }
  objects += service_text("x", "evil", "None") + slice_text("x", "evil", "198.51.100.4");
  TestRegistry strict(settings_with(Claims::Strict));
  strict.load(objects);
  strict.be_in("bank");
  EXPECT_EQ(reverse_names(strict, "192.0.2.77"), "own.bank.example");
  EXPECT_EQ(reverse_names(strict, "198.51.100.4"), "");
  strict.be_in("evil");
  EXPECT_EQ(reverse_names(strict, "198.51.100.4"), "198-51-100-4.x.evil.svc.cluster.local");
  TestRegistry istio(settings_with(Claims::Istio));
  istio.load(objects);
  istio.be_in("bank");
  EXPECT_EQ(reverse_names(istio, "198.51.100.4"), "198-51-100-4.x.evil.svc.cluster.local");
}

TEST(ClaimsTest, HiddenEntriesTakeNoReverseNameFromAnybody) {
  std::string objects = entry_text("own", "web", "own.web.example", "192.0.2.77");
  for (int i = 0; i < 256; ++i) {
    const std::string name = "h" + std::to_string(i);
    objects += entry_text(name, "evil", name + ".evil.example", "192.0.2.77\", \"192.0.2.78",
                          ", exportTo: [\".\"]");
  }
  TestRegistry r(settings_with(Claims::Istio));
  r.load(objects);
  r.be_in("bank");
  EXPECT_EQ(reverse_names(r, "192.0.2.77"), "own.web.example");
  View::ReverseLooks looks;
  EXPECT_FALSE(r.view().has_reverse(*IpAddress::parse("192.0.2.78"), looks));
  EXPECT_FALSE(looks.are_spent());
}

// However many namespaces have them, what an export or a Sidecar hides costs no look, and what is
// for some namespaces keeps nothing else out of reach.
TEST(ClaimsTest, HiddenEntriesOfManyNamespacesTakeNoReverseNameFromAnybody) {
  struct Case {
    Claims claims;
    std::string_view exported;
    bool has_sidecar;
  };
  const Case cases[] = {{Claims::Istio, R"(["."])", false},
                        {Claims::Istio, R"(["nobody"])", false},
                        {Claims::Istio, R"(["*"])", true},
                        {Claims::Strict, R"(["*"])", false}};
  for (const Case& c : cases) {
    TestRegistry r(settings_with(c.claims));
    std::string objects = entry_text("own", c.claims == Claims::Strict ? "istio-system" : "shop",
                                     "own.shop.example", "192.0.2.77");
    for (int ns = 0; ns < 40; ++ns)
      for (int i = 0; i < 8; ++i) {
        const std::string name = "h" + std::to_string(i);
        const std::string evil = "evil" + std::to_string(ns);
        objects +=
            entry_text(name, evil, name + "." + evil + ".example", "192.0.2.77\", \"192.0.2.78",
                       ", exportTo: " + std::string(c.exported));
      }
    if (c.has_sidecar)
      objects += R"(Sidecar bank/default
spec: { egress: [{ hosts: ["./*", "shop/own.shop.example"] }] }
)";
    r.load(objects);
    r.be_in("bank");
    SCOPED_TRACE(std::string(c.exported) + (c.has_sidecar ? ", Sidecar" : ""));
    EXPECT_EQ(reverse_names(r, "192.0.2.77"), "own.shop.example");
    View::ReverseLooks looks;
    EXPECT_FALSE(r.view().has_reverse(*IpAddress::parse("192.0.2.78"), looks));
    if (c.exported != R"(["nobody"])") {
      EXPECT_FALSE(looks.are_spent());
    }
  }
}

// The order of the namespaces among an address's hosts does not matter.
TEST(ClaimsTest, AHiddenCrowdLeavesTurnsToOtherNamespaces) {
  const auto hidden = [](const std::string& ns, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const std::string name = "h" + std::to_string(i);
      text += entry_text(name, ns, name + "." + ns + ".example", "192.0.2.77",
                         ", exportTo: [\"nobody\"]");
    }
    return text;
  };
  // The order of two namespaces is the hash's.
  for (const std::string evil : {"evil", "a", "b", "c", "d", "e", "f", "g", "h", "i",
                                 "j",    "k", "l", "m", "n", "o", "p", "q", "r", "s"}) {
    TestRegistry r(settings_with(Claims::Istio));
    r.load(
        hidden(evil, 250) + hidden("bank", 60) +
        entry_text("own", "bank", evil + ".bank.example", "192.0.2.77", ", exportTo: [\"web\"]"));
    r.be_in("web");
    EXPECT_EQ(reverse_names(r, "192.0.2.77"), evil + ".bank.example");
  }
}

// The Service is hidden, and the ServiceEntry of its host is for everybody.
TEST(ClaimsTest, AnAddressOfTwoEntriesHasANameForAllWhoSeeOne) {
  TestRegistry r(settings_with(Claims::Istio));
  r.load(service_text("db", "shop", "192.0.2.77",
                      ", annotations: {networking.istio.io/exportTo: \".\"}") +
         entry_text("db", "shop", "db.shop.svc.cluster.local", "192.0.2.77"));
  r.be_in("bank");
  EXPECT_EQ(reverse_names(r, "192.0.2.77"), "db.shop.svc.cluster.local");
}

TEST(ClaimsTest, AHostThatYieldsItsNameHasNoReverseName) {
  TestRegistry r(settings_with(Claims::Istio));
  r.load(entry_text("e", "evil", "db.bank", "192.0.2.77"));
  EXPECT_EQ(reverse_names(r, "192.0.2.77"), "db.bank");
  r.load(kBankText);
  EXPECT_EQ(reverse_names(r, "192.0.2.77"), "");
}

TEST(ClaimsTest, ANameOfAnEndpointThatIsClaimedIsThereOnce) {
  TestRegistry r(settings_with(Claims::Istio));
  const std::string name = "10-4-0-1.db.shop.svc.cluster.local";
  r.load(service_text("db", "shop", "None") + slice_text("db", "shop", "10.4.0.1") +
         entry_text("e", "shop", name, "10.4.0.1"));
  EXPECT_EQ(reverse_names(r, "10.4.0.1"), name);
}

// The claims of an address come and go; one more object of a host changes how it uses the address.
TEST(ClaimsTest, ReverseNamesFollowTheUsersOfAnAddress) {
  TestRegistry r(settings_with(Claims::Strict));
  r.be_in("web");
  r.load(entry_text("e", "web", "db.web.svc.cluster.local", "10.96.0.9") +
         entry_text("f", "web", "f.example.org", "10.96.0.9"));
  EXPECT_EQ(reverse_names(r, "10.96.0.9"), "f.example.org");
  r.load(service_text("db", "web", "10.96.0.9"));
  EXPECT_EQ(reverse_names(r, "10.96.0.9"), "db.web.svc.cluster.local");
  r.remove({Kind::Service, "", "web", "db"});
  EXPECT_EQ(reverse_names(r, "10.96.0.9"), "f.example.org");
  r.remove({Kind::ServiceEntry, "", "web", "f"});
  EXPECT_EQ(reverse_names(r, "10.96.0.9"), "");
}

TEST(ClaimsTest, HiddenServicesGuardTheirAddressesToo) {
  TestRegistry r(settings_with(Claims::Strict));
  r.load(service_text("db", "bank", "10.96.0.1",
                      ", annotations: {networking.istio.io/exportTo: \".\"}") +
         entry_text("a", "evil", "a.example.org", "10.96.0.1") +
         service_text("fake", "evil", "None") + slice_text("fake", "evil", "10.96.0.1"));
  r.be_in("evil");
  EXPECT_EQ(reverse_names(r, "10.96.0.1"), "");
}

TEST(ClaimsTest, TrafficToAServiceAddressReachesTheService) {
  struct Case {
    Claims mode;
    std::string_view address;
    std::uint16_t port;
    std::string_view host;
  };
  const Case cases[] = {
      {Claims::Istio, "10.96.0.1", 80, "db.bank.svc.cluster.local"},
      {Claims::Strict, "10.96.0.1", 80, "db.bank.svc.cluster.local"},
      // a port that the Service does not have
      {Claims::Istio, "10.96.0.1", 90, "squat.example.org"},
      {Claims::Strict, "10.96.0.1", 90, ""},
      {Claims::Strict, "10.4.0.2", 90, ""},
      {Claims::Strict, "10.5.0.1", 90, "range.example.org"},
      {Claims::Strict, "192.0.2.1", 90, "own.example.org"},
  };
  for (const auto& c : cases) {
    TestRegistry r(settings_with(c.mode));
    r.load(kBankText + pod_text("lonely", "bank", "10.4.0.2") +
           entry_text("a", "evil", "squat.example.org", "10.96.0.1") +
           entry_text("b", "evil", "range.example.org", "10.0.0.0/8") +
           entry_text("c", "evil", "own.example.org", "192.0.2.1"));
    r.be_in("web");
    const TrafficMatch match =
        match_traffic(r.view(), {*IpAddress::parse(c.address), c.port, "", ""});
    EXPECT_EQ(match.host, c.host) << c.address << ":" << c.port;
  }
}

TEST(ClaimsTest, OthersWorkloadsAreNoEndpoints) {
  for (const Claims mode : {Claims::Istio, Claims::Strict}) {
    TestRegistry r(settings_with(mode));
    r.load(
        "ServiceEntry evil/e\nspec: {hosts: [e.example.org], resolution: STATIC, workloadSelector: "
        "{labels: {app: db}}, ports: [{number: 80, name: http, protocol: HTTP}]}\nWorkloadEntry "
        "bank/w {labels: {app: db}}\nspec: {address: 10.4.0.1}\n");
    EXPECT_EQ(r.ask("e.example.org"), "exact forward");
  }
}

TEST(ClaimsTest, AnAliasDoesNotLeadToAHiddenName) {
  TestRegistry r;
  r.load("Service web/alias\nspec: {type: ExternalName, externalName: hidden.example.org}\n---\n" +
         entry_text("h", "vault", "hidden.example.org", "10.0.0.9", ", exportTo: [\".\"]"));
  r.be_in("web");
  EXPECT_EQ(r.ask("alias"), "short name alias hidden.example.org");
  EXPECT_EQ(r.ask("hidden.example.org"), "none");
}

TEST(ClaimsTest, StrictKeepsTheRangeOfPersistentVipsForTheAllocator) {
  MeshSettings settings = settings_with(Claims::Strict);
  settings.auto_allocate = AutoAllocate::Persistent;
  TestRegistry r(settings);
  r.load(entry_text("e", "evil", "e.example.org", "240.240.0.7") +
         entry_text("r", "istio-system", "r.example.org", "240.240.0.8"));
  EXPECT_EQ(r.ask("e.example.org"), "exact forward");
  EXPECT_EQ(r.ask("r.example.org"), "exact vips 240.240.0.8");
}

// --- orders and changes

TEST(ClaimsTest, RulingsDependOnTheObjectsOnly) {
  const std::vector<std::string> objects = {
      "Namespace /bank\n---\n",
      service_text("db", "bank", "10.96.0.1"),
      service_text("db", "bank2", "10.96.0.2"),
      pod_text("p", "till", "10.4.0.1"),
      entry_text("a", "evil", "db.bank", "10.6.6.1"),
      entry_text("b", "evil", "x.db.bank2", "10.6.6.2"),
      entry_text("c", "evil", "any.till", "10.6.6.3"),
      entry_text("d", "evil", "db.bank.svc.east.example.net", "10.6.6.4"),
      entry_text("e", "evil", "*.y.db.bank", "10.6.6.5"),
  };
  const auto answers = [](TestRegistry& r) {
    std::string text;
    for (const std::string_view name :
         {"db.bank", "x.db.bank2", "any.till", "db.bank.svc.east.example.net", "z.y.db.bank"})
      text += r.ask(name) + "; ";
    return text;
  };
  std::mt19937 random(5);
  std::set<std::size_t> live;
  TestRegistry changing(settings_with(Claims::Strict));
  for (int step = 0; step < 300; ++step) {
    const std::size_t i = random() % objects.size();
    if (live.erase(i) != 0) {
      changing.remove(key_of(parse(objects[i]).front()));
    } else {
      live.insert(i);
      changing.load(objects[i]);
    }
    TestRegistry fresh(settings_with(Claims::Strict));
    std::vector<Resource> all;
    for (const std::size_t j : live) all.push_back(parse(objects[j]).front());
    std::ranges::shuffle(all, random);
    fresh.add(all);
    ASSERT_EQ(answers(changing), answers(fresh)) << "step " << step;
  }
}

TEST(ClaimsTest, TheSerialDoesNotFollowChanges) {
  TestRegistry r;
  r.registry().set_serial(1'790'000'000);
  r.load(kBankText);
  EXPECT_EQ(r.registry().current()->serial, 1'790'000'000U);
  r.load(service_text("db", "bank", "10.96.0.9",
                      ", annotations: {networking.istio.io/exportTo: \".\"}"));
  r.registry().set_settings(settings_with(Claims::Strict));
  EXPECT_EQ(r.registry().current()->serial, 1'790'000'000U);
}

}  // namespace
}  // namespace meshdns::registry
