// SPDX-License-Identifier: Apache-2.0
// The effects of objects on each other: the addresses and ports of an entry beside others, the
// order of effects in a change, and the effects of settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "registry/derive/deriver.hpp"
#include "registry/model/name_owners.hpp"
#include "registry/snapshot/publisher.hpp"
#include "registry/tables/persistent_vips.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

ObjectMeta meta_of_object(std::string ns, std::string name, std::int64_t created = 0) {
  ObjectMeta meta;
  meta.ns = std::move(ns);
  meta.name = std::move(name);
  meta.creation_time = created;
  return meta;
}

ServiceEntry static_entry(std::string ns, std::string name, std::string host,
                          const std::vector<std::string>& addresses, std::int64_t created = 0) {
  ServiceEntry entry;
  entry.meta = meta_of_object(std::move(ns), std::move(name), created);
  entry.hosts = {std::move(host)};
  entry.resolution = Resolution::Static;
  entry.ports = {{80, 0, "http", "HTTP"}};
  for (const auto& address : addresses) entry.addresses.push_back(*IpPrefix::parse(address));
  return entry;
}

ServiceEntry dns_entry(const std::vector<std::string>& names) {
  ServiceEntry entry = static_entry("x", "names", "api.example.org", {});
  entry.resolution = Resolution::Dns;
  for (const auto& name : names) entry.endpoints.emplace_back().address = name;
  return entry;
}

KubeService cluster_ip_service(std::string ns, std::string name, const std::string& ip) {
  KubeService service;
  service.meta = meta_of_object(std::move(ns), std::move(name));
  service.cluster_ips = {*IpAddress::parse(ip)};
  service.ports = {{80, 0, "http", "TCP"}};
  return service;
}

Namespace namespace_named(const std::string& name) {
  Namespace object;
  object.meta = meta_of_object("", name);
  return object;
}

Ingress ingress_of(std::string ns, std::vector<std::string> hosts, std::string address) {
  Ingress ingress;
  ingress.meta = meta_of_object(std::move(ns), "in");
  ingress.hosts = std::move(hosts);
  ingress.addresses = {std::move(address)};
  return ingress;
}

MeshSettings strict() {
  MeshSettings settings;
  settings.claims = Claims::Strict;
  return settings;
}

PersistentVipOptions vips_in_memory() {
  PersistentVipOptions options;
  options.clock = [] { return std::int64_t{1'000}; };
  options.report = [](const std::string&) {};
  return options;
}

// --- the addresses and ports of entries ---------------------------------------------------------

TEST(DerivedAnswersTest, AnEntryThatKeepsAStatusAddressOfAFamilyGetsNoVipOfIt) {
  struct Case {
    std::vector<std::string> status;  // of the younger entry; the older one has 240.1.0.1, fd00::1
    std::string kept;
    bool has_vip;
  };
  for (const Case& c : {Case{{"240.1.0.1", "240.1.0.2"}, "240.1.0.2", false},
                        Case{{"fd00::1", "fd00::2"}, "fd00::2", false},
                        Case{{"240.1.0.1", "240.1.0.2", "fd00::2"}, "240.1.0.2 fd00::2", false},
                        Case{{"240.1.0.1", "fd00::2"}, "fd00::2", true},
                        Case{{"240.1.0.2", "fd00::1"}, "240.1.0.2", true}}) {
    MeshSettings settings;
    settings.auto_allocate = AutoAllocate::Hash;
    TestRegistry registry(settings);
    ServiceEntry older = static_entry("x", "older", "older.example.org", {}, 1);
    ServiceEntry younger = static_entry("y", "younger", "younger.example.org", {}, 2);
    for (const std::string address : {"240.1.0.1", "fd00::1"})
      older.status_addresses.push_back({older.hosts[0], *IpAddress::parse(address)});
    for (const std::string& address : c.status)
      younger.status_addresses.push_back({younger.hosts[0], *IpAddress::parse(address)});
    registry.add({older, younger});
    const std::string answer = registry.ask("younger.example.org");
    if (c.has_vip)
      EXPECT_GT(answer.size(), ("exact vips " + c.kept).size()) << answer;
    else
      EXPECT_EQ(answer, "exact vips " + c.kept);
  }
}

TEST(DerivedAnswersTest, WithStrictClaimsTheRangeOfPersistentVipsIsNobodysOwn) {
  for (const AutoAllocate choice :
       {AutoAllocate::Off, AutoAllocate::Hash, AutoAllocate::Persistent}) {
    MeshSettings settings = strict();
    settings.auto_allocate = choice;
    TestRegistry registry(settings);
    registry.add({static_entry("x", "e", "api.example.org",
                               {"10.0.0.1", "240.240.5.5", "2001:2::5", "2001:db8::5"})});
    EXPECT_EQ(registry.ask("api.example.org"),
              choice == AutoAllocate::Persistent
                  ? "exact vips 10.0.0.1 2001:db8::5"
                  : "exact vips 10.0.0.1 240.240.5.5 2001:2::5 2001:db8::5");
  }
}

TEST(DerivedAnswersTest, TheUnspecifiedAddressIsNoAnswer) {
  TestRegistry registry;
  registry.add({static_entry("x", "e", "api.example.org", {"0.0.0.0", "10.0.0.1", "::"}),
                static_entry("x", "f", "none.example.org", {"0.0.0.0"})});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 10.0.0.1");
  EXPECT_EQ(registry.ask("none.example.org"), "exact forward");
}

TEST(DerivedAnswersTest, AHostWithAnAddressOfItsOwnIsNotAutoAllocated) {
  TestRegistry registry;
  ServiceEntry unspecified = static_entry("x", "0", "api.example.org", {"0.0.0.0"}, 1);
  ServiceEntry declared = static_entry("x", "a", "api.example.org", {"10.0.0.1"}, 1);
  ServiceEntry allocated = static_entry("x", "b", "api.example.org", {}, 2);
  allocated.status_addresses = {{"api.example.org", *IpAddress::parse("240.240.0.1")}};
  const auto is_allocated = [&] {
    return registry.view().lookup("api.example.org").service->auto_allocated;
  };
  registry.add({unspecified, allocated});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 240.240.0.1");
  EXPECT_TRUE(is_allocated());
  registry.add({declared});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 10.0.0.1 240.240.0.1");
  EXPECT_FALSE(is_allocated());
}

TEST(DerivedAnswersTest, AnEntryOfResolutionNoneGivesItsWorkloadsWhenItHasAPort) {
  TestRegistry registry;
  WorkloadEntry workload;
  workload.meta = meta_of_object("x", "vm");
  workload.meta.labels = {{"app", "x"}};
  workload.spec.address = "10.3.0.1";
  ServiceEntry with = static_entry("x", "with", "with.example.org", {});
  ServiceEntry without = static_entry("x", "without", "without.example.org", {});
  for (ServiceEntry* entry : {&with, &without}) {
    entry->resolution = Resolution::None;
    entry->workload_selector = Labels{{"app", "x"}};
  }
  without.ports.clear();
  registry.add({workload, with, without});
  EXPECT_EQ(registry.ask("with.example.org"), "exact endpoints 10.3.0.1");
  EXPECT_EQ(registry.ask("without.example.org"), "exact forward");
}

TEST(DerivedAnswersTest, APortNumberOfTwoEntriesIsOnePortTheOldersOne) {
  // Entries with the same numbers are one record, others are parts of one.
  for (const bool has_other : {false, true}) {
    TestRegistry registry;
    ServiceEntry first = static_entry("x", "a", "api.example.org", {"10.0.0.1"}, 1);
    ServiceEntry second = static_entry("x", "b", "api.example.org", {"10.0.0.2"}, 2);
    second.ports = {{80, 0, "web", "HTTP"}};
    if (has_other) second.ports.push_back({81, 0, "sql", "TCP"});
    registry.add({first, second});
    const View view = registry.view();
    std::string ports;
    for (const ServicePort& port : view.lookup("api.example.org").service->ports->ports)
      ports += port.name + " " + std::to_string(port.number) + " ";
    EXPECT_EQ(ports, has_other ? "http 80 sql 81 " : "http 80 ");
  }
}

// Two hosts of one entry have the same endpoints, and the same notes about those left out.
TEST(DerivedAnswersTest, EveryHostOfAnEntrySaysWhichEndpointsAreLeftOut) {
  TestRegistry registry;
  ServiceEntry entry = static_entry("x", "e", "a.example.org", {});
  entry.hosts = {"a.example.org", "b.example.org"};
  for (int i = 1; i <= 60; ++i)
    entry.endpoints.emplace_back().address = "10.1.0." + std::to_string(i);
  entry.endpoints.emplace_back().address = "unix:///run/socket";
  registry.add({entry});
  const View view = registry.view();
  for (const char* const host : {"a.example.org", "b.example.org"}) {
    const auto& details = view.lookup(host).service->details;
    ASSERT_TRUE(details) << host;
    EXPECT_TRUE(std::ranges::any_of(details->notes, [](const std::string& note) {
      return note.find("unix:///run/socket") != std::string::npos;
    })) << host;
  }
}

TEST(DerivedAnswersTest, AHostThatWasAnsweredStaysSoWhileAnotherNameIsLookedUp) {
  TestRegistry registry;
  registry.add({dns_entry({"a.example.net"})});
  const std::string pending = registry.ask("api.example.org");
  registry.resolve("a.example.net", {"10.7.0.1"});
  EXPECT_EQ(registry.ask("api.example.org"), "exact endpoints 10.7.0.1");
  registry.add({dns_entry({"a.example.net", "b.example.net"})});
  EXPECT_EQ(registry.ask("api.example.org"), "exact endpoints 10.7.0.1");
  registry.resolve("a.example.net", {}, ResolvedName::State::Failed);
  EXPECT_EQ(registry.ask("api.example.org"), pending) << "the other name may have an address";
  registry.resolve("b.example.net", {}, ResolvedName::State::Failed);
  EXPECT_NE(registry.ask("api.example.org"), pending);
  EXPECT_EQ(registry.ask("api.example.org").find("endpoints"), std::string::npos);
}

// For one namespace, the host has an address, and for another one looked up names.
TEST(DerivedAnswersTest, APartThatWasAnsweredStaysSoWhileAnotherNameIsLookedUp) {
  TestRegistry registry;
  registry.be_in("web");
  ServiceEntry own = static_entry("x", "own", "api.example.org", {"10.0.0.1"});
  own.export_to = ExportTo{"."};
  ServiceEntry names = dns_entry({"a.example.net"});
  names.export_to = ExportTo{"web"};
  registry.add({own, names});
  registry.resolve("a.example.net", {"10.7.0.1"});
  EXPECT_EQ(registry.ask("api.example.org"), "exact endpoints 10.7.0.1");
  names.endpoints.emplace_back().address = "b.example.net";
  registry.add({names});
  EXPECT_EQ(registry.ask("api.example.org"), "exact endpoints 10.7.0.1");
}

// --- names of the cluster set -------------------------------------------------------------------

// Against the rules of KEP-1645, on random Services and exports of three clusters.
TEST(ExportedServicesTest, FollowTheOldestExportOverRandomClusters) {
  std::mt19937 random(3);
  const auto pick = [&](std::size_t bound) { return random() % bound; };
  for (int round = 0; round < 2'000; ++round) {
    std::vector<KubeService> services;
    std::vector<ServiceExport> exports;
    for (const std::string cluster : {"c0", "c1", "c2"}) {
      KubeService service = cluster_ip_service("shop", "db", "10.96.0.1");
      service.meta.cluster = cluster;
      service.headless = pick(3) == 0;
      if (pick(8) == 0) service.type = ServiceType::ExternalName;
      service.ports.clear();
      for (std::size_t i = pick(3); i-- > 0;)
        service.ports.push_back({static_cast<std::uint16_t>(80 + pick(2)), 0,
                                 pick(2) == 0 ? "http" : "sql", pick(4) == 0 ? "UDP" : "TCP"});
      if (pick(6) != 0) services.push_back(service);
      ServiceExport exported;
      exported.meta = service.meta;
      if (pick(4) != 0) exports.push_back(exported);
    }
    std::ranges::shuffle(exports, random);
    // The model.
    std::vector<const KubeService*> used;
    std::vector<ServicePort> ports;
    std::size_t conflicts = 0;
    for (const ServiceExport& exported : exports)
      for (const KubeService& service : services) {
        if (service.meta.cluster != exported.meta.cluster) continue;
        if (service.type == ServiceType::ExternalName) continue;
        if (!used.empty() && used.front()->headless != service.headless) {
          ++conflicts;
          continue;
        }
        used.push_back(&service);
        std::vector<ServicePort> own;
        for (const ServicePort& port : service.ports) {
          const auto with_name = std::ranges::find(ports, port.name, &ServicePort::name);
          const auto older = with_name != ports.end()
                                 ? with_name
                                 : std::ranges::find_if(ports, [&](const ServicePort& p) {
                                     return p.number == port.number && p.protocol == port.protocol;
                                   });
          if (older == ports.end())
            own.push_back(port);
          else if (older->name != port.name || older->number != port.number ||
                   older->protocol != port.protocol)
            ++conflicts;
        }
        ports.insert(ports.end(), own.begin(), own.end());
      }
    Stored<ServiceExport> stored_exports;
    for (const auto& each : exports) stored_exports.emplace_back(&each, nullptr);
    Stored<KubeService> stored_services;
    for (const auto& each : services) stored_services.emplace_back(&each, nullptr);
    const ExportedServices result = exported_services(stored_exports, stored_services);
    std::vector<const KubeService*> found;
    for (const auto& [service, stored] : result.services) found.push_back(service);
    ASSERT_EQ(found, used) << "round " << round;
    ASSERT_EQ(result.ports, ports) << "round " << round;
    ASSERT_EQ(result.conflicts.size(), conflicts) << "round " << round;
  }
}

// --- settings, and what follows what ------------------------------------------------------------

TEST(FollowingTest, VipsStayWhenSettingsChange) {
  MeshSettings settings;
  settings.auto_allocate = AutoAllocate::Persistent;
  TestRegistry registry(settings);
  registry.registry().set_vip_allocator(std::make_unique<PersistentVips>(vips_in_memory()));
  registry.add({static_entry("x", "e", "api.example.org", {})});
  const std::string before = registry.ask("api.example.org");
  ASSERT_TRUE(before.starts_with("exact vips")) << before;
  registry.remove({Kind::ServiceEntry, "", "x", "e"});
  registry.add({static_entry("x", "e", "other.example.org", {})});
  settings.ttl.vip += 1;
  registry.registry().set_settings(settings);
  registry.add({static_entry("x", "f", "api.example.org", {})});
  EXPECT_EQ(registry.ask("api.example.org"), before);
  EXPECT_TRUE(registry.ask("other.example.org").starts_with("exact vips"));
}

TEST(FollowingTest, SettingsThatNeedNoNamesEndTheirLookups) {
  TestRegistry registry;
  EXPECT_EQ(registry.add({dns_entry({"a.example.net"})}).names.added.size(), 1U);
  MeshSettings settings;
  settings.endpoint_answers = false;
  EXPECT_EQ(registry.registry().set_settings(settings).names.removed,
            (std::vector<NameUse>{{"a.example.net", "x"}}));
  EXPECT_EQ(registry.registry().set_settings({}).names.added,
            (std::vector<NameUse>{{"a.example.net", "x"}}));
}

TEST(FollowingTest, NamesOfTheClusterSetFollowTheSlicesOfTheService) {
  TestRegistry registry;
  KubeService service = cluster_ip_service("shop", "db", "10.96.0.1");
  service.cluster_ips.clear();
  service.headless = true;
  ServiceExport exported;
  exported.meta = service.meta;
  registry.add({service, exported});
  EndpointSlice slice;
  slice.meta = meta_of_object("shop", "db-1");
  slice.service = "db";
  auto& subset = slice.subsets.emplace_back();
  subset.ports = service.ports;
  subset.endpoints.emplace_back().addresses = {*IpAddress::parse("10.1.0.1")};
  registry.add({slice});
  EXPECT_EQ(registry.ask("db.shop.svc.clusterset.local"), "exact endpoints 10.1.0.1");
  registry.remove(key_of(slice));
  EXPECT_EQ(registry.ask("db.shop.svc.clusterset.local").find("10.1.0.1"), std::string::npos);
}

TEST(FollowingTest, ClaimsFollowTheOwnersOfTheirNames) {
  NameTableEntry name;
  name.meta = meta_of_object("evil", "db.bank");
  name.ips = {*IpAddress::parse("10.6.6.6")};
  for (const Resource& claim :
       {Resource(static_entry("evil", "e", "db.bank", {"10.6.6.6"})), Resource(name)}) {
    TestRegistry registry(strict());
    registry.add({claim});
    EXPECT_EQ(registry.ask("db.bank"), "exact vips 10.6.6.6");
    EXPECT_EQ(registry.add({namespace_named("bank")}).refused.size(), 1U);
    EXPECT_EQ(registry.ask("db.bank"), "none");
    registry.remove({Kind::Namespace, "", "", "bank"});
    EXPECT_EQ(registry.ask("db.bank"), "exact vips 10.6.6.6");
  }
}

TEST(FollowingTest, ASelectorThatIsGoneMarksNoHost) {
  TestRegistry registry;
  ServiceEntry entry = static_entry("shop", "e", "api.example.org", {"10.0.0.1"});
  WorkloadEntry workload;
  workload.meta = meta_of_object("shop", "vm");
  workload.meta.labels = {{"app", "db"}};
  workload.spec.address = "10.3.0.1";
  entry.workload_selector = Labels{{"app", "db"}};
  registry.add({entry});
  EXPECT_EQ(registry.add({workload}).changed_hosts, 1U);
  entry.workload_selector.reset();
  registry.add({entry});
  EXPECT_EQ(registry.remove(key_of(workload)).changed_hosts, 0U);
}

TEST(FollowingTest, VisibilityFollowsTheLabelsOfTheNamespace) {
  MeshSettings settings;
  settings.service_entry_visibility.policies = {
      {Visibility::Namespace, {LabelSelector{{{"tier", "low"}}, {}}}}};
  TestRegistry registry(settings);
  registry.be_in("web");
  registry.add({static_entry("shop", "e", "api.example.org", {"10.0.0.1"})});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 10.0.0.1");
  Namespace shop = namespace_named("shop");
  shop.meta.labels = {{"tier", "low"}};
  registry.add({shop});
  EXPECT_EQ(registry.ask("api.example.org"), "none");
  shop.meta.labels.clear();
  registry.add({shop});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 10.0.0.1");
}

TEST(FollowingTest, NearEndpointsFollowTheTrafficDistributionOfTheNamespace) {
  MeshSettings settings;
  settings.locality = LocalityChoice::First;
  TestRegistry registry(settings);
  ServiceEntry entry = static_entry("shop", "e", "api.example.org", {});
  entry.endpoints.emplace_back().address = "10.1.0.1";
  registry.add({entry});
  const auto distribution = [&] {
    return registry.view().lookup("api.example.org").service->endpoints()->near.distribution;
  };
  EXPECT_EQ(distribution(), TrafficDistribution::Unset);
  Namespace shop = namespace_named("shop");
  shop.traffic_distribution = TrafficDistribution::SameZone;
  registry.add({shop});
  EXPECT_EQ(distribution(), TrafficDistribution::SameZone);
  registry.remove(key_of(shop));
  EXPECT_EQ(distribution(), TrafficDistribution::Unset);
}

TEST(FollowingTest, EndpointNamesOfPodsFollowThePods) {
  for (const PodNames choice : {PodNames::Verified, PodNames::Insecure}) {
    MeshSettings settings;
    settings.pods = choice;
    TestRegistry registry(settings);
    registry.add({dns_entry({"10-1-0-1.shop.pod.cluster.local"})});
    Pod pod;
    pod.meta = meta_of_object("shop", "p");
    pod.ips = {*IpAddress::parse("10.1.0.1")};
    EXPECT_EQ(registry.add({pod}).names.touched.size(), choice == PodNames::Verified ? 1U : 0U);
  }
}

TEST(FollowingTest, ARefusedEntryIsToldOfOnce) {
  TestRegistry registry(strict());
  registry.add({namespace_named("bank")});
  ServiceEntry entry = static_entry("evil", "e", "db.bank", {"10.0.0.1"});
  EXPECT_EQ(registry.add({entry}).refused.size(), 1U);
  entry.addresses = {*IpPrefix::parse("10.0.0.2")};
  EXPECT_EQ(registry.add({entry}).refused.size(), 0U);
  entry.hosts = {"api.example.org"};
  EXPECT_EQ(registry.add({entry}).refused.size(), 0U);
  entry.hosts = {"db.bank"};
  EXPECT_EQ(registry.add({entry}).refused.size(), 1U);
}

MeshSettings with_gateways(MeshSettings settings = {}) {
  settings.gateway_names.kinds = {Kind::Gateway, Kind::HttpRoute, Kind::Ingress, Kind::Service};
  settings.gateway_names.services = {{"class", "infra/gw"}};
  return settings;
}

TEST(FollowingTest, ARefusedGatewayNameIsToldOfOnceEachTimeThatItComes) {
  TestRegistry registry(with_gateways());
  const auto refused = [&](std::vector<std::string> hosts, std::string address) {
    return registry.add({ingress_of("shop", std::move(hosts), std::move(address))}).refused.size();
  };
  EXPECT_EQ(refused({"db.bank.svc.cluster.local"}, "192.0.2.1"), 1U);
  EXPECT_EQ(refused({"db.bank.svc.cluster.local"}, "192.0.2.2"), 0U);
  EXPECT_EQ(refused({"api.example.org"}, "192.0.2.2"), 0U);
  EXPECT_EQ(refused({"db.bank.svc.cluster.local"}, "192.0.2.2"), 1U);
}

TEST(FollowingTest, GatewayNamesFollowTheOwnersOfANameInEachOrder) {
  const auto answer = [](const std::vector<std::vector<Resource>>& commits) {
    TestRegistry registry(with_gateways(strict()));
    for (const auto& commit : commits) registry.add(commit);
    return registry.ask("api.bank");
  };
  const Ingress ingress = ingress_of("shop", {"api.bank"}, "192.0.2.1");
  const std::string both = answer({{ingress, namespace_named("bank")}});
  EXPECT_NE(both, answer({{ingress}})) << "the namespace owns the name";
  EXPECT_EQ(answer({{ingress}, {namespace_named("bank")}}), both);
  EXPECT_EQ(answer({{namespace_named("bank")}, {ingress}}), both);
}

TEST(FollowingTest, AServiceThatIsNotServedGivesNoGatewayAddress) {
  for (const bool is_served : {true, false}) {
    MeshSettings settings = with_gateways();
    settings.namespaces = {"shop"};
    if (is_served) settings.namespaces.push_back("infra");
    TestRegistry registry(settings);
    Ingress ingress = ingress_of("shop", {"api.example.org"}, "192.0.2.1");
    ingress.class_name = "class";
    registry.add({cluster_ip_service("infra", "gw", "10.96.0.9"), ingress});
    EXPECT_EQ(registry.ask("api.example.org"),
              is_served ? "exact vips 10.96.0.9" : "exact vips 192.0.2.1");
  }
}

// The kernel drops its answers for what the change names.
TEST(FollowingTest, AChangeNamesTheClientsThatItConcerns) {
  TestRegistry registry;
  ClientSettings clients;
  clients.by_source_address = true;
  registry.registry().set_clients(clients);
  Changes change;
  registry.registry().set_before_publish([&](const Changes& of) { change = of; });
  Pod pod;
  pod.meta = meta_of_object("shop", "p");
  pod.ips = {*IpAddress::parse("10.1.0.1")};
  registry.add({pod});
  EXPECT_EQ(change.clients, pod.ips);
  EXPECT_FALSE(change.everything);
  Sidecar sidecar;
  sidecar.meta = meta_of_object("shop", "s");
  sidecar.egress.push_back({0, "", {"./*"}});
  registry.add({sidecar});
  EXPECT_TRUE(change.everything);
  registry.remove({Kind::Sidecar, "", "shop", "s"});
  EXPECT_TRUE(change.everything);
  registry.add({static_entry("x", "e", "api.example.org", {"10.0.0.1"})});
  EXPECT_FALSE(change.everything);
  ASSERT_EQ(change.records.size(), 1U);
  EXPECT_EQ(change.records[0].host, "api.example.org");
}

TEST(FollowingTest, ASnapshotThatAReaderHoldsStays) {
  const auto snapshot = [] { return std::make_shared<const Snapshot>(); };
  auto first = snapshot();
  const std::weak_ptr<const Snapshot> watched = first;
  Publisher publisher(std::move(first));
  Publisher::Reader reader(publisher);
  reader.current();
  for (int i = 0; i < 3; ++i) publisher.publish(snapshot());
  publisher.collect();
  EXPECT_FALSE(watched.expired());
  reader.current();
  publisher.collect();
  EXPECT_TRUE(watched.expired());
}

TEST(FollowingTest, AStatusAddressPassesToAnEntryThatIsStillThere) {
  std::mt19937 random(5);
  TestRegistry registry;
  std::set<int> held;
  const auto host = [](int i) { return "h" + std::to_string(i) + ".example.org"; };
  for (int step = 0; step < 200; ++step) {
    const int i = static_cast<int>(random() % 5);
    if (held.erase(i) != 0) {
      registry.remove({Kind::ServiceEntry, "", "x", "e" + std::to_string(i)});
    } else {
      ServiceEntry entry = static_entry("x", "e" + std::to_string(i), host(i), {}, i);
      entry.status_addresses = {{host(i), *IpAddress::parse("240.240.0.1")}};
      registry.add({entry});
      held.insert(i);
    }
    for (const int each : held)
      ASSERT_EQ(registry.ask(host(each)),
                each == *held.begin() ? "exact vips 240.240.0.1" : "exact forward")
          << "step " << step;
  }
}

// --- claims, Sidecars and networks --------------------------------------------------------------

TEST(ClaimsOfOthersTest, NamesOfPodsAndNamespacesWithPodsAloneAreOwned) {
  NameOwners owners;
  const auto ignore = [](std::string_view) {};
  Pod pod;
  pod.meta = meta_of_object("bank", "p");
  EXPECT_EQ(claim_of("db.bank", "shop", strict(), owners), Claim::OutsideName);
  owners.add(pod, ignore);
  for (const std::string_view host :
       {"10-0-0-1.bank.pod.other.example", "db.bank.svc.other.example"}) {
    EXPECT_EQ(claim_of(host, "shop", strict(), owners), Claim::ClusterName) << host;
    EXPECT_EQ(claim_of(host, "bank", strict(), owners), Claim::OutsideName) << host;
  }
  EXPECT_EQ(claim_of("db.bank", "shop", strict(), owners), Claim::OthersShortName);
  owners.remove(pod, ignore);
  EXPECT_EQ(claim_of("db.bank", "shop", strict(), owners), Claim::OutsideName);
}

TEST(ClaimsOfOthersTest, ARefusedEntryHidesNoOtherOfItsHost) {
  for (const bool has_third : {false, true}) {
    TestRegistry registry(strict());
    std::vector<Resource> objects = {namespace_named("bank"),
                                     static_entry("evil", "e", "db.bank", {"10.6.6.6"}, 1),
                                     static_entry("bank", "own", "db.bank", {"10.0.0.1"}, 2)};
    if (has_third) objects.push_back(static_entry("devil", "e", "db.bank", {"10.6.6.7"}, 0));
    registry.add(objects);
    for (const char* const ns : {"web", "evil", "devil", "bank"}) {
      registry.be_in(ns);
      EXPECT_EQ(registry.ask("db.bank"), "exact vips 10.0.0.1") << ns;
    }
  }
}

TEST(ClaimsOfOthersTest, ASidecarHidesNoNameOfAGateway) {
  TestRegistry registry(with_gateways());
  Sidecar sidecar;
  sidecar.meta = meta_of_object("web", "s");
  sidecar.egress.push_back({0, "", {"./*"}});
  registry.add({sidecar, ingress_of("shop", {"in.example.org", "two.example.org"}, "192.0.2.1"),
                ingress_of("test", {"two.example.org"}, "192.0.2.2"),
                static_entry("shop", "e", "api.example.org", {"10.0.0.1"})});
  registry.be_in("web");
  EXPECT_EQ(registry.ask("in.example.org"), "exact vips 192.0.2.1");
  EXPECT_EQ(registry.ask("two.example.org"), "exact vips 192.0.2.1");
  EXPECT_EQ(registry.ask("api.example.org"), "none");
}

TEST(ClaimsOfOthersTest, ANameOfATableWithoutAShortNameHasNone) {
  for (const std::string short_name : {"", "web"}) {
    TestRegistry registry;
    NameTableEntry names;
    names.meta = meta_of_object("shop", "web.shop.svc.cluster.local");
    names.ips = {*IpAddress::parse("10.96.0.1")};
    names.kubernetes = true;
    names.short_name = short_name;
    registry.add({names});
    registry.be_in("shop");
    EXPECT_EQ(registry.ask("web.shop.svc.cluster.local"), "exact vips 10.96.0.1");
    for (const char* const name : {"web", "web.shop", "web.shop.svc"})
      EXPECT_EQ(registry.ask(name), short_name.empty() ? "none" : "short name vips 10.96.0.1")
          << name;
  }
}

// An address that istiod gives a host is that host's only by the table.
TEST(ClaimsOfOthersTest, AnEntryHasTheReverseNameOfAnAddressThatATableHas) {
  TestRegistry registry(strict());
  NameTableEntry names;
  names.meta = meta_of_object("bank", "web.bank.svc.cluster.local");
  names.ips = {*IpAddress::parse("10.5.0.1")};
  names.kubernetes = true;
  names.short_name = "web";
  registry.add({names, static_entry("shop", "e", "api.example.org", {"10.5.0.1"})});
  for (const char* const ns : {"shop", "bank"}) {
    registry.be_in(ns);
    const auto found = registry.view().reverse(*IpAddress::parse("10.5.0.1"));
    EXPECT_EQ(std::ranges::count(found, "api.example.org", &View::ReverseName::name),
              std::string_view(ns) == "shop" ? 1 : 0)
        << ns;
    EXPECT_FALSE(registry.view().is_cluster_address(*IpAddress::parse("10.5.0.1")));
  }
}

// However many namespaces have an address.
TEST(ClaimsOfOthersTest, TheClientsOwnReverseNameComesBeforeThoseOfACrowd) {
  std::vector<Resource> objects;
  for (int i = 0; i < 600; ++i)
    objects.push_back(static_entry("n" + std::to_string(i), "e",
                                   "h" + std::to_string(i) + ".example.org", {"10.5.0.1"}));
  TestRegistry registry;
  registry.add(objects);
  for (int i = 0; i < 600; i += 7) {
    registry.be_in("n" + std::to_string(i));
    const auto found = registry.view().reverse(*IpAddress::parse("10.5.0.1"));
    EXPECT_EQ(std::ranges::count(found, "h" + std::to_string(i) + ".example.org",
                                 &View::ReverseName::name),
              1)
        << i;
  }
}

TEST(ClaimsOfOthersTest, AMemberBehindAGatewayKeepsItsShortName) {
  MeshSettings settings;
  settings.networks = NetworkChoice::Gateways;
  settings.mesh_networks = {{.name = "n2",
                             .registries = {},
                             .prefixes = {},
                             .gateways = {*IpAddress::parse("192.0.2.1")},
                             .gateway_services = {}}};
  TestRegistry registry(settings);
  KubeService service = cluster_ip_service("shop", "db", "10.96.0.1");
  service.cluster_ips.clear();
  service.headless = true;
  EndpointSlice slice;
  slice.meta = meta_of_object("shop", "db-1");
  slice.meta.network = "n2";
  slice.service = "db";
  auto& subset = slice.subsets.emplace_back();
  subset.ports.push_back({80, 0, "http", "TCP"});
  Endpoint endpoint;
  endpoint.addresses = {*IpAddress::parse("10.1.0.1")};
  endpoint.ready = true;
  endpoint.hostname = "db-0";
  subset.endpoints.push_back(endpoint);
  registry.add({service, slice, static_entry("evil", "e", "db-0.db.shop", {"10.6.6.6"})});
  for (const char* const network : {"n1", "n2"}) {
    ClientIdentity identity;
    identity.ns = "web";
    identity.network = network;
    registry.be(identity);
    EXPECT_EQ(registry.ask("db-0.db.shop").find("10.6.6.6"), std::string::npos)
        << network << ": " << registry.ask("db-0.db.shop");
  }
}

TEST(ClaimsOfOthersTest, ANetworkHasABoundedNumberOfGateways) {
  MeshSettings settings;
  settings.networks = NetworkChoice::Gateways;
  MeshNetwork network{
      .name = "n2", .registries = {}, .prefixes = {}, .gateways = {}, .gateway_services = {}};
  for (int i = 1; i <= 100; ++i)
    network.gateways.push_back(*IpAddress::parse("192.0.2." + std::to_string(i)));
  settings.mesh_networks = {network};
  TestRegistry registry(settings);
  ClientIdentity client;
  client.network = "n1";
  registry.be(client);
  ServiceEntry entry = static_entry("x", "e", "api.example.org", {});
  WorkloadSpec& spec = entry.endpoints.emplace_back();
  spec.address = "10.1.0.1";
  spec.network = "n2";
  registry.add({entry});
  const View view = registry.view();
  EXPECT_EQ(view.addresses(*view.lookup("api.example.org").service).v4.size(), 64U);
}

// --- where a client is --------------------------------------------------------------------------

TEST(ClientPlaceTest, ItsNetworkAndItsPlaceComeFromTheFirstObjectThatHasThem) {
  struct Case {
    std::string_view what;
    std::function<void(Pod&)> change;
    std::string network;
    std::string zone;
  };
  const Case cases[] = {
      {"nothing is known", [](Pod&) {}, "n-daemon", "z-daemon"},
      {"the label of its network", [](Pod& pod) { pod.meta.network = "n-own"; }, "n-own",
       "z-daemon"},
      {"its cluster has a network", [](Pod& pod) { pod.meta.cluster = "west"; }, "n-west",
       "z-daemon"},
      {"its node is known", [](Pod& pod) { pod.node_name = "node-2"; }, "n-daemon", "z2"},
      {"its node is not known", [](Pod& pod) { pod.node_name = "node-9"; }, "n-daemon", ""},
      {"the daemon's node", [](Pod& pod) { pod.node_name = "node-1"; }, "n-daemon", "z-daemon"},
      {"a label of its place",
       [](Pod& pod) {
         pod.node_name = "node-2";
         pod.meta.labels = {{"istio-locality", "r.z-label"}};
       },
       "n-daemon", "z-label"}};
  for (const Case& c : cases) {
    MeshSettings settings;
    settings.locality = LocalityChoice::First;
    TestRegistry registry(settings);
    ClientSettings clients;
    clients.by_source_address = true;
    clients.default_identity.network = "n-daemon";
    clients.default_identity.node = "node-1";
    clients.default_identity.locality = {"r", "z-daemon", ""};
    registry.registry().set_clients(clients);
    Namespace root = namespace_named("istio-system");
    root.meta.cluster = "west";
    root.meta.labels = {{"topology.istio.io/network", "n-west"}};
    KubeNode node;
    node.meta = meta_of_object("", "node-2");
    node.meta.labels = {{"topology.kubernetes.io/region", "r"},
                        {"topology.kubernetes.io/zone", "z2"}};
    Pod pod;
    pod.meta = meta_of_object("shop", "p");
    pod.ips = {*IpAddress::parse("10.1.0.1")};
    c.change(pod);
    registry.add({root, node, pod});
    const Client* const client = registry.snapshot().client_at(*IpAddress::parse("10.1.0.1"));
    ASSERT_NE(client, nullptr) << c.what;
    EXPECT_EQ(client->identity.network, c.network) << c.what;
    EXPECT_EQ(client->identity.locality.zone, c.zone) << c.what;
  }
}

TEST(ClientWorkloadTest, IsTheCanonicalNameOrElseTheOwnerOrTheObject) {
  const auto workload_of = [](const Labels& labels, std::string_view owner) {
    TestRegistry registry;
    ClientSettings clients;
    clients.by_source_address = true;
    registry.registry().set_clients(clients);
    Pod pod;
    pod.meta = meta_of_object("shop", "web-5d4f8-x7k2p");
    pod.meta.labels = labels;
    pod.ips = {*IpAddress::parse("10.1.0.1")};
    if (!owner.empty()) set_owner(pod, owner);
    registry.add({pod});
    return registry.snapshot().client_at(*IpAddress::parse("10.1.0.1"))->workload;
  };
  EXPECT_EQ(workload_of({{"app", "shop"}, {"app.kubernetes.io/name", "web"}}, ""), "web");
  EXPECT_EQ(workload_of({{"app", "shop"}, {"service.istio.io/canonical-name", "cart"}}, ""),
            "cart");
  EXPECT_EQ(workload_of({{"app", "shop"}}, "web"), "shop");
  EXPECT_EQ(workload_of({{"app", ""}}, "web"), "web");
  EXPECT_EQ(workload_of({}, ""), "web-5d4f8-x7k2p");
}

// A file may have the nodes, and has no cluster.
TEST(ClientPlaceTest, APodFollowsANodeThatIsOfNoCluster) {
  MeshSettings settings;
  settings.locality = LocalityChoice::First;
  TestRegistry registry(settings);
  ClientSettings clients;
  clients.by_source_address = true;
  registry.registry().set_clients(clients);
  Pod pod;
  pod.meta = meta_of_object("shop", "p");
  pod.meta.cluster = "west";
  pod.node_name = "node-2";
  pod.ips = {*IpAddress::parse("10.1.0.1")};
  registry.add({pod});
  for (const std::string zone : {"z1", "z2"}) {
    KubeNode node;
    node.meta = meta_of_object("", "node-2");
    node.meta.labels = {{"topology.kubernetes.io/region", "r"},
                        {"topology.kubernetes.io/zone", zone}};
    registry.add({node});
    const Client* const client = registry.snapshot().client_at(*IpAddress::parse("10.1.0.1"));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->identity.locality.zone, zone);
  }
}

TEST(ClientPlaceTest, AWorkloadEntryIsInTheNetworkOfItsSpec) {
  TestRegistry registry;
  ClientSettings clients;
  clients.by_source_address = true;
  clients.workload_entry_namespaces = {"shop"};
  registry.registry().set_clients(clients);
  WorkloadEntry workload;
  workload.meta = meta_of_object("shop", "vm");
  workload.meta.network = "n-source";
  workload.spec.address = "10.3.0.1";
  for (const std::string network : {"n-own", ""}) {
    workload.spec.network = network;
    registry.add({workload});
    const Client* const client = registry.snapshot().client_at(*IpAddress::parse("10.3.0.1"));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->identity.network, network.empty() ? "n-source" : network);
  }
}

}  // namespace
}  // namespace meshdns::registry
