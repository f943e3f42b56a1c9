// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include <algorithm>
#include <random>

#include "tests/fewer.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

std::string entry(std::string_view name, std::string_view ns, std::string_view spec,
                  std::string_view created = "") {
  std::string text = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " +
                     std::string(name) + ", namespace: " + std::string(ns);
  if (!created.empty()) text += ", creationTimestamp: \"" + std::string(created) + "\"";
  return text + "}\nspec: {" + std::string(spec) + "}\n---\n";
}

constexpr std::string_view kPorts = "ports: [{number: 80, name: http, protocol: HTTP}]";

std::string vip(std::string_view host, std::string_view address) {
  return "hosts: [\"" + std::string(host) + "\"], addresses: [" + std::string(address) +
         "], resolution: STATIC, " + std::string(kPorts);
}

TEST(RegistryTest, PrefersExactHostThenLongestWildcard) {
  TestRegistry r;
  r.load(entry("a", "x", vip("*.bar.com", "10.0.0.1")) +
         entry("b", "x", vip("*.b.bar.com", "10.0.0.2")) +
         entry("c", "x", vip("a.b.bar.com", "10.0.0.3")));
  EXPECT_EQ(r.ask("x.bar.com"), "wildcard vips 10.0.0.1");
  EXPECT_EQ(r.ask("x.y.bar.com"), "wildcard vips 10.0.0.1");
  EXPECT_EQ(r.ask("x.b.bar.com"), "wildcard vips 10.0.0.2");
  EXPECT_EQ(r.ask("a.b.bar.com"), "exact vips 10.0.0.3");
  EXPECT_EQ(r.ask("bar.com"), "none");
}

// istiod sends workloads with the addresses of both families, whatever the Service has.
TEST(RegistryTest, AServiceOfOneFamilyHasNoEndpointsOfTheOther) {
  const std::string host = "db.shop.svc.cluster.local";
  const auto answer = [&](std::string_view family, bool headless) {
    TestRegistry r;
    auto resources = parse(
        "Service shop/db\nspec: {clusterIP: " + std::string(headless ? "None" : "10.96.0.1") +
        ", ports: [{port: 80}]}\nEndpointSlice shop/db-1 {labels: {kubernetes.io/service-name: "
        "db}}\naddressType: IPv4\nendpoints: [{addresses: [10.1.0.1], hostname: m}]\n");
    std::get<EndpointSlice>(resources[1])
        .subsets[0]
        .endpoints[0]
        .addresses.push_back(*IpAddress::parse("2001:db8::1"));
    if (!family.empty()) set_only_family(std::get<KubeService>(resources[0]), family);
    r.add(resources);
    std::string text = r.ask(host);
    for (const EndpointEntry& entry : r.view().lookup(host).service->endpoints()->entries)
      text += ", " + entry.address.to_string();
    return text;
  };
  EXPECT_EQ(answer("", true), "exact endpoints 10.1.0.1 2001:db8::1, 10.1.0.1, 2001:db8::1");
  EXPECT_EQ(answer("IPv4", true), "exact endpoints 10.1.0.1, 10.1.0.1");
  EXPECT_EQ(answer("IPv6", true), "exact endpoints 2001:db8::1, 2001:db8::1");
  EXPECT_EQ(answer("IPv4", false), "exact vips 10.96.0.1, 10.1.0.1");
}

// "a" comes last by its name: only the creation time can prefer the other namespace.
TEST(RegistryTest, PrefersTheOlderOfTwoNamespacesWhateverTheirCreationTimes) {
  // In the order of age; "" is an object without creationTimestamp, which counts as the oldest.
  const std::vector<std::string> times = {
      "",
      "0001-01-01T00:00:00Z",
      "1969-12-31T23:59:58.5Z",
      "1969-12-31T23:59:59.5Z",
      "1970-01-01T00:00:00Z",
      "1970-01-01T00:00:01Z",
      "2026-01-31T12:00:00Z",
      "9999-12-31T23:59:59Z",
  };
  for (std::size_t older = 0; older < times.size(); ++older) {
    for (std::size_t younger = older + 1; younger < times.size(); ++younger) {
      TestRegistry r;
      r.load(entry("one", "a", vip("api.example.org", "10.0.0.1"), times[younger]) +
             entry("two", "b", vip("api.example.org", "10.0.0.2"), times[older]));
      EXPECT_EQ(r.ask("api.example.org"), "exact vips 10.0.0.2")
          << "'" << times[older] << "' is older than '" << times[younger] << "'";
    }
  }
}

TEST(RegistryTest, MergesEntriesOfOneNamespaceIntoASet) {
  TestRegistry r;
  r.load(entry("a", "x", vip("api.example.org", "10.0.0.2"), "2024-01-02T00:00:00Z") +
         entry("b", "x", vip("api.example.org", "10.0.0.1, 10.0.0.2"), "2024-01-01T00:00:00Z"));
  EXPECT_EQ(r.ask("api.example.org"), "exact vips 10.0.0.1 10.0.0.2");
}

TEST(RegistryTest, ChoosesOwnNamespaceThenServiceThenExportedThenOldest) {
  TestRegistry r;
  const std::string host = "db.prod.svc.cluster.local";
  r.load(entry("old", "a", vip("h.example.org", "10.0.0.1"), "2020-01-01T00:00:00Z") +
         entry("new", "b", vip("h.example.org", "10.0.0.2"), "2024-01-01T00:00:00Z") +
         entry("own", "web", vip("h.example.org", "10.0.0.3"), "2025-01-01T00:00:00Z") +
         entry("named", "c", vip("n.example.org", "10.0.1.1") + ", exportTo: [web]",
               "2025-01-01T00:00:00Z") +
         entry("public", "d", vip("n.example.org", "10.0.1.2"), "2020-01-01T00:00:00Z") +
         entry("claim", "evil", vip(host, "10.6.6.6"), "2019-01-01T00:00:00Z") +
         "Service prod/db\nspec: {clusterIP: 10.1.1.1, ports: [{port: 80}]}\n");
  r.be_in("web");
  EXPECT_EQ(r.ask("h.example.org"), "exact vips 10.0.0.3");
  EXPECT_EQ(r.ask("n.example.org"), "exact vips 10.0.1.1");
  EXPECT_EQ(r.ask(host), "exact vips 10.1.1.1");
  r.be_in("other");
  EXPECT_EQ(r.ask("h.example.org"), "exact vips 10.0.0.1");
  EXPECT_EQ(r.ask("n.example.org"), "exact vips 10.0.1.2");
  r.be_in("evil");
  EXPECT_EQ(r.ask(host), "exact vips 10.6.6.6");
}

TEST(RegistryTest, AServiceThatWaitsForItsAddressIsKnownAndAManifestIsNot) {
  KubeService service;
  service.meta.name = "web";
  service.meta.ns = "shop";
  TestRegistry r;
  r.add({service});
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "exact no address");
  service.is_manifest = true;
  r.add({service});
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "none");
  EXPECT_EQ(r.ask("web.shop"), "none");
  EXPECT_FALSE(r.view().namespace_exists("shop"));
}

TEST(RegistryTest, NamesAboveHostsExistForClientsThatSeeOne) {
  TestRegistry r;
  r.load(entry("a", "x", vip("api.mesh.example", "10.0.0.1") + ", exportTo: [\".\"]") +
         entry("w", "y", vip("*.wild.internal", "10.0.0.2")) +
         entry("n", "y", "hosts: [none.other.test], resolution: NONE"));
  const auto exist = [&](std::string_view ns, std::vector<std::string_view> names) {
    r.be_in(std::string(ns));
    return std::ranges::all_of(
        names, [&](std::string_view name) { return r.view().is_empty_non_terminal(name); });
  };
  EXPECT_TRUE(exist("x", {"mesh.example", "example", "wild.internal", "internal"}));
  EXPECT_TRUE(exist("y", {"wild.internal", "internal"}));
  for (const std::string_view hidden :
       {"mesh.example", "example", "other.test", "api.mesh.example"})
    EXPECT_FALSE(exist("y", {hidden})) << hidden;
  r.remove({Kind::ServiceEntry, {}, "x", "a"});
  EXPECT_FALSE(exist("x", {"example"}));
}

TEST(RegistryTest, ANameAboveTheHostsOfVeryManyNamespacesExists) {
  TestRegistry r;
  std::string text;
  for (int i = 0; i < 1100; ++i) {
    const std::string number = std::to_string(i);
    text += entry("a", "ns-" + number,
                  vip("h" + number + ".example.org", "10.0.0.1") + ", exportTo: [\".\"]");
  }
  r.load(text);
  r.be_in("ns-1099");
  EXPECT_TRUE(r.view().is_empty_non_terminal("example.org"));
  for (int i = 0; i < 1100; ++i) r.remove({Kind::ServiceEntry, {}, "ns-" + std::to_string(i), "a"});
  EXPECT_FALSE(r.view().is_empty_non_terminal("example.org"));
}

TEST(RegistryTest, HidesServicesThatAreNotExported) {
  TestRegistry r;
  r.load(entry("dot", "egress", vip("dot.example.com", "10.0.0.1") + ", exportTo: [\".\"]") +
         entry("none", "egress", vip("none.example.com", "10.0.0.2") + ", exportTo: [\"~\"]") +
         entry("away", "egress", vip("away.example.com", "10.0.0.3") + ", exportTo: [other]"));
  EXPECT_EQ(r.ask("dot.example.com"), "none");
  r.be_in("egress");
  EXPECT_EQ(r.ask("dot.example.com"), "exact vips 10.0.0.1");
  EXPECT_EQ(r.ask("none.example.com"), "none");
  EXPECT_EQ(r.ask("away.example.com"), "none") << "the own namespace is not implied";
  r.be_in("other");
  EXPECT_EQ(r.ask("away.example.com"), "exact vips 10.0.0.3");
}

TEST(RegistryTest, ForwardsAnExactHostWithoutAddressEvenIfAWildcardMatches) {
  TestRegistry r;
  r.load(entry("w", "x", vip("*.bar.com", "10.0.0.1")) +
         entry("n", "x", "hosts: [n.bar.com], resolution: NONE, " + std::string(kPorts)));
  EXPECT_EQ(r.ask("n.bar.com"), "exact forward");
}

TEST(RegistryTest, FollowsResolvedNames) {
  TestRegistry r;
  const auto summary =
      r.load(entry("d", "x",
                   "hosts: [d.example.org], resolution: DNS, endpoints: [{address: a.example.net}, "
                   "{address: "
                   "b.example.net}], " +
                       std::string(kPorts)) +
             entry("rr", "x",
                   "hosts: [rr.example.org], resolution: DNS_ROUND_ROBIN, endpoints: [{address: "
                   "a.example.net}], " +
                       std::string(kPorts)));
  EXPECT_EQ(summary.names.added,
            (std::vector<NameUse>{{"a.example.net", "x"}, {"b.example.net", "x"}}));
  EXPECT_EQ(r.ask("d.example.org"), "exact pending");
  r.resolve("a.example.net", {"192.0.2.1", "192.0.2.2"});
  EXPECT_EQ(r.ask("d.example.org"), "exact pending") << "the first answer waits for all names";
  EXPECT_EQ(r.ask("rr.example.org"), "exact endpoints 192.0.2.1");
  r.resolve("b.example.net", {"192.0.2.2", "192.0.2.3"});
  EXPECT_EQ(r.ask("d.example.org"), "exact endpoints 192.0.2.1 192.0.2.2 192.0.2.3");
  r.resolve("a.example.net", {}, ResolvedName::State::Failed);
  r.resolve("b.example.net", {}, ResolvedName::State::Failed);
  EXPECT_EQ(r.ask("d.example.org"), "exact unresolvable");
  const auto gone = r.remove({Kind::ServiceEntry, "", "x", "d"});
  EXPECT_EQ(gone.names.removed, (std::vector<NameUse>{{"b.example.net", "x"}}));
}

TEST(RegistryTest, ResolvedNameReachesOnlyTheGivenNamespace) {
  TestRegistry r;
  const std::string spec =
      "resolution: DNS, endpoints: [{address: a.example.net}], " + std::string(kPorts);
  const auto summary = r.load(entry("d", "x", "hosts: [x.example.org], " + spec) +
                              entry("e", "y", "hosts: [y.example.org], " + spec));
  EXPECT_EQ(summary.names.added,
            (std::vector<NameUse>{{"a.example.net", "x"}, {"a.example.net", "y"}}));
  Transaction t;
  t.set_resolved(
      "y", {"a.example.net", ResolvedName::State::Resolved, {*IpAddress::parse("192.0.2.1")}});
  EXPECT_EQ(r.registry().commit(std::move(t)).changed_hosts, 1u);
  EXPECT_EQ(r.ask("x.example.org"), "exact pending");
  EXPECT_EQ(r.ask("y.example.org"), "exact endpoints 192.0.2.1");
}

TEST(RegistryTest, NameThatMovesToAnotherHostStaysResolved) {
  TestRegistry r;
  const std::string spec =
      "resolution: DNS, endpoints: [{address: a.example.net}], " + std::string(kPorts);
  r.load(entry("d", "x", "hosts: [old.example.org], " + spec));
  r.resolve("a.example.net", {"192.0.2.1"});
  const auto moved = r.load(entry("d", "x", "hosts: [new.example.org], " + spec));
  EXPECT_TRUE(moved.names.added.empty());
  EXPECT_TRUE(moved.names.removed.empty());
  EXPECT_EQ(r.ask("new.example.org"), "exact endpoints 192.0.2.1");
}

// A commit that changes addresses of one name of a large set derives the set once, and compares
// its names without a search for each.
TEST(RegistryTest, ManyResolvedNamesOfOneSetAreOneChange) {
  constexpr int kNames = 1'000;
  std::string endpoints;
  for (int i = 0; i < kNames; ++i)
    endpoints += "{address: n" + std::to_string(i) + ".example.net}, ";
  TestRegistry r;
  r.load(entry("d", "x",
               "hosts: [d.example.org], resolution: DNS, endpoints: [" + endpoints + "], " +
                   std::string(kPorts)));
  Transaction t;
  for (int i = 0; i < kNames; ++i)
    t.set_resolved("x", {"n" + std::to_string(i) + ".example.net",
                         ResolvedName::State::Resolved,
                         {IpAddress::v4({192, 0, static_cast<std::uint8_t>(i / 250),
                                         static_cast<std::uint8_t>(i % 250 + 1)})}});
  EXPECT_EQ(r.registry().commit(std::move(t)).changed_hosts, 1u);
  EXPECT_EQ(r.view().addresses(*r.view().lookup("d.example.org").service).v4.size(), 1'000u);
}

// A volume whose files are named by time would otherwise fill the memory in the end.
TEST(RegistryTest, OriginsThatAreGoneLeaveNothing) {
  Registry registry({});
  const auto resource = parse(entry("d", "x", "hosts: [d.example.org], " + std::string(kPorts)));
  const std::size_t names = registry.current()->origins->size();
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = std::to_string(i) + ".yaml";
    Transaction added;
    added.upsert(resource.front(), name, 1);
    registry.commit(std::move(added));
    EXPECT_EQ(registry.current()->origins->of(registry.origin(name)), name);
    Transaction removed;
    removed.remove_origin(name);
    registry.commit(std::move(removed));
  }
  EXPECT_LE(registry.current()->origins->size(), names + OriginNames::kBlockSize);
  EXPECT_TRUE(registry.current()->resources.empty());
}

TEST(RegistryTest, ClientsOfExplanationsAreNotStored) {
  TestRegistry r;
  r.load(
      "Sidecar istio-system/default\nspec: {egress: [{hosts: [\"./*\", \"shop/*\"]}]}\n---\n" +
      entry("d", "shop", "hosts: [d.example.org], addresses: [10.0.0.1], " + std::string(kPorts)));
  ClientIdentity identity;
  identity.ns = "visitor";
  r.registry().client_of(identity);
  const std::size_t symbols = r.registry().symbols();
  const std::size_t scopes = r.registry().scopes();
  for (int i = 0; i < 10'000; ++i) {
    identity.ns = identity.network = identity.cluster = "n" + std::to_string(i);
    const auto client = r.registry().client_of(identity);
    ASSERT_EQ(client->ns->text(), identity.ns);
    ASSERT_TRUE(View(*r.registry().current(), *client).lookup("d.example.org"));
  }
  EXPECT_EQ(r.registry().symbols(), symbols);
  EXPECT_EQ(r.registry().scopes(), scopes);
}

TEST(RegistryTest, ClientsOfExplanationsAreWhereTheirNodeIs) {
  MeshSettings settings;
  settings.locality = LocalityChoice::First;
  TestRegistry r(settings);
  r.load(
      "Node /node-1 {labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: "
      "z1}}\n");
  ClientIdentity identity;
  identity.ns = "shop";
  identity.node = "node-1";
  const auto of_node = r.registry().client_of(identity);
  ASSERT_TRUE(of_node->place.zone);
  EXPECT_EQ(of_node->place.zone->text(), "z1");
  EXPECT_EQ(of_node->identity.locality.region, "r1");
  identity.locality.zone = "z2";
  const auto of_own = r.registry().client_of(identity);
  EXPECT_EQ(of_own->place.zone->text(), "z2");
  EXPECT_FALSE(of_own->place.region);
}

// Counts how often all addresses are assigned, which costs time linear in their number.
class CountingVips final : public VipAllocator {
 public:
  explicit CountingVips(int& count) : count_(count) {}
  std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                    const std::vector<IpAddress>& taken) override {
    ++count_;
    return hash_.assign(requests, taken);
  }

 private:
  int& count_;
  HashVips hash_;
};

TEST(RegistryTest, AssignsVipsOnlyWhenHostsOrClaimsChange) {
  MeshSettings settings;
  settings.auto_allocate = AutoAllocate::Persistent;
  TestRegistry r(settings);
  int count = 0;
  r.registry().set_vip_allocator(std::make_unique<CountingVips>(count));
  const auto assigns = [&](const std::string& text) {
    const int before = std::exchange(count, 0);
    r.load(text);
    return std::exchange(count, before) != 0;
  };
  const auto dns = [](std::string_view host, std::string_view more = "") {
    return "hosts: [" + std::string(host) + "], resolution: DNS, " + std::string(kPorts) +
           std::string(more);
  };
  EXPECT_TRUE(assigns(entry("a", "x", dns("a.example.org"))));
  const std::string vip = r.ask("a.example.org");
  EXPECT_NE(vip.find("240.240."), std::string::npos) << vip;
  EXPECT_FALSE(assigns(entry("a", "x", dns("a.example.org", ", location: MESH_INTERNAL"))));
  EXPECT_FALSE(assigns("Namespace /x\n"));
  EXPECT_EQ(r.ask("a.example.org"), vip);
  // Two objects that swap their hosts in one commit ask for the same as before.
  EXPECT_TRUE(assigns(entry("b", "x", dns("b.example.org"))));
  EXPECT_FALSE(
      assigns(entry("a", "x", dns("b.example.org")) + entry("b", "x", dns("a.example.org"))));
  EXPECT_EQ(r.ask("a.example.org"), vip);
  // The age decides who is first where two hosts collide.
  EXPECT_TRUE(assigns(entry("a", "x", dns("b.example.org"), "2026-01-31T12:00:00Z")));
  EXPECT_TRUE(assigns(entry("c", "y", dns("a.example.org"))));
  EXPECT_TRUE(assigns(entry("v", "x", ::meshdns::registry::vip("v.example.org", "240.240.1.1"))));
  EXPECT_TRUE(assigns(entry("v", "x", ::meshdns::registry::vip("v.example.org", "10.0.0.1"))));
  const int before = count;
  r.remove({Kind::ServiceEntry, "", "y", "c"});
  EXPECT_EQ(count, before + 1);
}

TEST(RegistryTest, SelectsWorkloadsOfTheOwnNamespace) {
  TestRegistry r;
  r.load(entry("details", "x",
               "hosts: [details.example.org], resolution: STATIC, workloadSelector: {labels: {app: "
               "details}}, " +
                   std::string(kPorts)));
  EXPECT_EQ(r.ask("details.example.org"), "exact forward");
  const std::string workload =
      "WorkloadEntry NS/w1\nspec: {address: ADDR, labels: {app: details}}\n---\n";
  auto fill = [&](const std::string& ns, const std::string& address) {
    std::string text = workload;
    text.replace(text.find("NS"), 2, ns);
    return text.replace(text.find("ADDR"), 4, address);
  };
  r.load(fill("x", "2.2.2.2") + fill("other", "9.9.9.9"));
  EXPECT_EQ(r.ask("details.example.org"), "exact endpoints 2.2.2.2");
  r.load(
      "Pod x/p {labels: {app: details}}\nspec: {}\nstatus: {podIP: 3.3.3.3, phase: Running, "
      "conditions: [{type: Ready, status: \"True\"}]}\n");
  EXPECT_EQ(r.ask("details.example.org"), "exact endpoints 3.3.3.3 2.2.2.2");
  r.remove({Kind::WorkloadEntry, "", "x", "w1"});
  EXPECT_EQ(r.ask("details.example.org"), "exact endpoints 3.3.3.3");
}

TEST(RegistryTest, FindsServicesByShortNamesAndNamesBelow) {
  TestRegistry r;
  r.load(
      "Service shop/web\nspec: {clusterIP: None, ports: [{name: http, port: 80}]}\nEndpointSlice "
      "shop/web-1 {labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{name: "
      "http, port: 8080}]\nendpoints: [{addresses: [10.1.0.1], hostname: web-0}, {addresses: "
      "[10.1.0.2], conditions: {ready: false}}]\n");
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "exact endpoints 10.1.0.1");
  EXPECT_EQ(r.ask("web.shop.svc"), "short name endpoints 10.1.0.1");
  EXPECT_EQ(r.ask("web.shop"), "short name endpoints 10.1.0.1");
  EXPECT_EQ(r.ask("web"), "none");
  r.be_in("shop");
  EXPECT_EQ(r.ask("web"), "short name endpoints 10.1.0.1");
  EXPECT_EQ(r.ask("web-0.web.shop.svc.cluster.local"), "below endpoints [web-0] 10.1.0.1");
  EXPECT_EQ(r.ask("_http._tcp.web.shop.svc"), "below endpoints [_http._tcp] 10.1.0.1");
  const auto reverse = r.view().reverse(*IpAddress::parse("10.1.0.1"));
  ASSERT_EQ(reverse.size(), 1U);
  EXPECT_EQ(reverse[0].name, "web-0.web.shop.svc.cluster.local");
  EXPECT_TRUE(r.view().reverse(*IpAddress::parse("10.1.0.2")).empty());
}

TEST(RegistryTest, KeepsSlicesThatComeBeforeTheirService) {
  TestRegistry r;
  r.load(
      "EndpointSlice shop/s {labels: {kubernetes.io/service-name: web}}\naddressType: "
      "IPv4\nendpoints: [{addresses: [10.1.0.1]}]\n");
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "none");
  r.load("Service shop/web\nspec: {clusterIP: None}\n");
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "exact endpoints 10.1.0.1");
  r.remove({Kind::Service, "", "shop", "web"});
  EXPECT_EQ(r.ask("web.shop.svc.cluster.local"), "none");
}

TEST(RegistryTest, NarrowsByTheSidecarThatSelectsTheClient) {
  TestRegistry r;
  r.load(entry("a", "one", vip("a.example.org", "10.0.0.1")) +
         entry("b", "two", vip("b.example.org", "10.0.0.2")) +
         entry("w", "two", vip("*.wild.org", "10.0.0.3")) +
         "Sidecar web/s\nspec: {egress: [{hosts: [\"one/*\", \"*/*.wild.org\"]}]}\nSidecar "
         "web/t\nspec: {workloadSelector: {labels: {app: t}}, egress: [{hosts: "
         "[\"two/b.example.org\"]}]}\n");
  r.be_in("web");
  EXPECT_EQ(r.ask("a.example.org"), "exact vips 10.0.0.1");
  EXPECT_EQ(r.ask("b.example.org"), "none");
  EXPECT_EQ(r.ask("x.wild.org"), "wildcard vips 10.0.0.3");
  ClientIdentity selected;
  selected.ns = "web";
  selected.labels = {{"app", "t"}};
  r.be(selected);
  EXPECT_EQ(r.ask("a.example.org"), "none");
  EXPECT_EQ(r.ask("b.example.org"), "exact vips 10.0.0.2");
}

TEST(RegistryTest, IdentifiesClientsByUniqueAddresses) {
  TestRegistry r;
  ClientSettings clients;
  clients.by_source_address = true;
  r.registry().set_clients(clients);
  const auto pod = [](const std::string& name, const std::string& ns, const std::string& ip,
                      const std::string& more = "") {
    return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + ns +
           "}\nspec: {" + more + "}\nstatus: {podIP: " + ip + ", phase: Running}\n---\n";
  };
  r.load(pod("a", "shop", "10.2.0.1") + pod("h1", "kube-system", "10.9.0.1", "hostNetwork: true"));
  const auto ns_of = [&](std::string_view ip) {
    const Client* client = r.registry().current()->client_at(*IpAddress::parse(ip));
    return client == nullptr || !client->ns ? std::string("unknown")
                                            : std::string(client->ns->text());
  };
  EXPECT_EQ(ns_of("10.2.0.1"), "shop");
  EXPECT_EQ(ns_of("::ffff:10.2.0.1"), "shop");
  EXPECT_EQ(ns_of("10.9.0.1"), "unknown");
  EXPECT_EQ(ns_of("10.2.0.2"), "unknown");
  r.load(pod("b", "other", "10.2.0.1"));
  EXPECT_EQ(ns_of("10.2.0.1"), "unknown") << "two Pods at one address say nothing";
  r.remove({Kind::Pod, "", "shop", "a"});
  EXPECT_EQ(ns_of("10.2.0.1"), "other");
  r.remove({Kind::Pod, "", "other", "b"});
  EXPECT_EQ(ns_of("10.2.0.1"), "unknown");
}

TEST(RegistryTest, SharesScopesBetweenNamespacesOfOneRootSidecar) {
  TestRegistry r;
  ClientSettings clients;
  clients.by_source_address = true;
  r.registry().set_clients(clients);
  std::string text = "Sidecar istio-system/s\nspec: {egress: [{hosts: [\"shared/*\"]}]}\n---\n";
  for (int i = 0; i < 50; ++i)
    text += "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns" + std::to_string(i) +
            "}\nspec: {}\nstatus: {podIP: 10.3.0." + std::to_string(i + 1) +
            ", phase: Running}\n---\n";
  r.load(text);
  EXPECT_EQ(r.registry().scopes(), 1U);
}

TEST(RegistryTest, SharesUnchangedEntriesBetweenGenerations) {
  TestRegistry r;
  r.load(entry("a", "x", vip("a.example.org", "10.0.0.1")) +
         entry("b", "x", vip("b.example.org", "10.0.0.2")));
  const auto before = r.registry().current();
  r.load(entry("b", "x", vip("b.example.org", "10.0.0.3")));
  const auto after = r.registry().current();
  EXPECT_EQ(before->find_host("a.example.org"), after->find_host("a.example.org"));
  EXPECT_NE(before->find_host("b.example.org"), after->find_host("b.example.org"));
  const View old(*before, *before->default_client);
  EXPECT_EQ(TestRegistry::describe(old, old.lookup("b.example.org")), "exact vips 10.0.0.2");
}

TEST(RegistryTest, CallsHandlersInOrderWithAViewAsNewAsTheEvent) {
  TestRegistry r;
  std::vector<std::string> seen;
  r.registry().controller().append_service_handler(
      [&](Event event, const RecordChange& change, const Snapshot& snapshot) {
        seen.push_back("1 " + std::string(to_string(event)) + " " + change.host +
                       (snapshot.find_host(change.host) ? " there" : " gone"));
      });
  r.registry().controller().append_service_handler(
      [&](Event, const RecordChange& change, const Snapshot&) {
        seen.push_back("2 " + change.host);
      });
  r.load(entry("a", "x", vip("a.example.org", "10.0.0.1")));
  r.load(entry("a", "x", vip("a.example.org", "10.0.0.1")));
  r.load(entry("a", "x", vip("a.example.org", "10.0.0.2")));
  r.remove({Kind::ServiceEntry, "", "x", "a"});
  EXPECT_EQ(seen, (std::vector<std::string>{"1 add a.example.org there", "2 a.example.org",
                                            "1 update a.example.org there", "2 a.example.org",
                                            "1 delete a.example.org gone", "2 a.example.org"}));
}

// --- Order independence --------------------------------------------------------------------------

std::vector<Resource> mixed_resources(std::mt19937& random) {
  std::string text;
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 60; ++i) {
    const std::string ns = "ns" + std::to_string(pick(4));
    const std::string host = pick(4) == 0 ? "*.w" + std::to_string(pick(3)) + ".org"
                                          : "h" + std::to_string(pick(10)) + ".w1.org";
    const std::string when = "2024-01-0" + std::to_string(1 + pick(4)) + "T00:00:00Z";
    std::string spec =
        vip(host, "10.0." + std::to_string(pick(3)) + "." + std::to_string(1 + pick(20)));
    if (pick(4) == 0) spec += ", exportTo: [ns" + std::to_string(pick(4)) + "]";
    if (pick(5) == 0)
      spec = "hosts: [\"" + host +
             "\"], resolution: STATIC, workloadSelector: {labels: {app: a}}, " +
             std::string(kPorts);
    text += entry("e" + std::to_string(i), ns, spec, when);
  }
  for (int i = 0; i < 12; ++i)
    text += "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: w" +
            std::to_string(i) + ", namespace: ns" + std::to_string(pick(4)) +
            "}\nspec: {address: 10.7.0." + std::to_string(i + 1) + ", labels: {app: a}}\n---\n";
  for (int i = 0; i < 10; ++i) {
    const std::string ns = "ns" + std::to_string(pick(4));
    const std::string name = "s" + std::to_string(i % 5);
    const std::string number = std::to_string(i + 1);
    text.append("apiVersion: v1\nkind: Service\nmetadata: {name: ").append(name);
    text.append(", namespace: ").append(ns).append("}\nspec: {clusterIP: ");
    text.append(pick(2) ? "None" : "10.8.0." + number).append("}\n---\n");
    text.append("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: ")
        .append(name);
    text.append("-x, namespace: ").append(ns).append(", labels: {kubernetes.io/service-name: ");
    text.append(name).append("}}\naddressType: IPv4\nendpoints: [{addresses: [10.9.0.");
    text.append(number).append("]}]\n---\n");
  }
  text += "Sidecar ns1/s\nspec: {egress: [{hosts: [\"ns0/*\", \"./*\", \"*/*.w1.org\"]}]}\n";
  return parse(text);
}

std::string everything(TestRegistry& r) {
  std::string all;
  for (int n = 0; n < 4; ++n) {
    r.be_in("ns" + std::to_string(n));
    for (int i = 0; i < 10; ++i) all += r.ask("h" + std::to_string(i) + ".w1.org") + "\n";
    for (int i = 0; i < 3; ++i) all += r.ask("x.w" + std::to_string(i) + ".org") + "\n";
    for (int i = 0; i < 5; ++i) {
      all += r.ask("s" + std::to_string(i)) + "\n";
      for (int m = 0; m < 4; ++m)
        all += r.ask("s" + std::to_string(i) + ".ns" + std::to_string(m)) + "\n";
    }
    for (int i = 1; i < 12; ++i)
      for (const std::string net : {"10.8.0.", "10.9.0.", "10.0.1."})
        for (const auto& name : r.view().reverse(*IpAddress::parse(net + std::to_string(i))))
          all += name.name + "\n";
  }
  return all;
}

constexpr int kHistories = test::fewer(40);
constexpr int kOrders = 5 * kHistories;

TEST(RegistryPropertyTest, AnswersDoNotDependOnTheOrderOfArrival) {
  std::mt19937 random(20240501);
  auto resources = mixed_resources(random);
  // One key twice would be an update, whose order counts.
  std::map<ResourceKey, Resource> unique;
  for (auto& r : resources) unique.insert_or_assign(key_of(r), r);
  resources.clear();
  for (auto& [key, r] : unique) resources.push_back(r);
  TestRegistry reference;
  reference.add(resources);
  const std::string expected = everything(reference);
  ASSERT_NE(expected.find("vips"), std::string::npos);
  for (int round = 0; round < kOrders; ++round) {
    std::ranges::shuffle(resources, random);
    TestRegistry r;
    for (auto& resource : resources) r.add({resource});
    ASSERT_EQ(everything(r), expected) << "round " << round;
  }
}

TEST(RegistryPropertyTest, HistoriesEndInTheStateOfAFreshLoad) {
  std::mt19937 random(7);
  for (int round = 0; round < kHistories; ++round) {
    TestRegistry r;
    std::map<ResourceKey, Resource> live;
    for (int step = 0; step < 4; ++step) {
      for (auto& resource : mixed_resources(random)) {
        const ResourceKey key = key_of(resource);
        if (random() % 3 == 0 && live.contains(key)) {
          r.remove(key);
          live.erase(key);
        } else {
          live.insert_or_assign(key, resource);
          r.add({resource});
        }
      }
    }
    TestRegistry fresh;
    std::vector<Resource> resources;
    for (auto& [key, resource] : live) resources.push_back(resource);
    fresh.add(resources);
    ASSERT_EQ(everything(r), everything(fresh)) << "round " << round;
    // The registry is empty when all objects are removed.
    for (auto& [key, resource] : live) r.remove(key);
    const auto& empty = *r.registry().current();
    EXPECT_TRUE(empty.hosts.empty() && empty.wildcards.empty() && empty.reverse.empty() &&
                empty.namespaces.empty() && empty.resources.empty() && empty.non_terminals.empty());
  }
}

TEST(RegistryTest, RetainRemovesObjectsThatAListDoesNotHave) {
  TestRegistry r;
  const std::string stays = entry("stays", "x", vip("stays.example.org", "10.0.0.1"));
  r.load(stays + entry("goes", "x", vip("goes.example.org", "10.0.0.2")));
  Transaction elsewhere;
  for (auto& other : parse(entry("other", "x", vip("other.example.org", "10.0.0.3"))))
    elsewhere.upsert(other, "elsewhere.yaml", 1);
  r.registry().commit(std::move(elsewhere));

  Transaction t;
  OriginChange& list = t.changes.emplace_back();
  list.origin = "test.yaml";
  list.effect = OriginChange::Effect::Retain;
  list.kept = {hash_of(ResourceKey{Kind::ServiceEntry, "", "x", "stays"})};
  const auto summary = r.registry().commit(std::move(t));
  EXPECT_EQ(summary.changed_resources, 1U);
  EXPECT_EQ(r.ask("stays.example.org"), "exact vips 10.0.0.1");
  EXPECT_EQ(r.ask("goes.example.org"), "none");
  EXPECT_EQ(r.ask("other.example.org"), "exact vips 10.0.0.3") << "another origin's";
}

// Two origins have one object: while one is read again, the other's version is used temporarily.
TEST(RegistryTest, TheLastChangeOfAnObjectInATransactionWins) {
  TestRegistry r;
  const auto upsert = [&](Transaction& t, std::string_view origin, std::string_view address) {
    for (const auto& resource :
         parse(entry("api", "x", vip("api.example.org", std::string(address)))))
      t.upsert(resource, origin, 1);
  };
  Transaction second;
  upsert(second, "b.yaml", "10.0.0.2");
  r.registry().commit(std::move(second));
  Transaction first;
  upsert(first, "a.yaml", "10.0.0.1");
  first.remove({Kind::ServiceEntry, "", "x", "api"}, "a.yaml");
  r.registry().commit(std::move(first));
  EXPECT_EQ(r.ask("api.example.org"), "exact vips 10.0.0.2");
}

}  // namespace
}  // namespace meshdns::registry
