// SPDX-License-Identifier: Apache-2.0
// Names of gateways: the name that a listener and a route have in common, and the dependence of
// answers on several objects.
#include "registry/tables/gateway_names.hpp"

#include <random>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

MeshSettings all_gateway_names() {
  MeshSettings settings;
  settings.gateway_names.kinds = {Kind::Gateway,   Kind::HttpRoute, Kind::TlsRoute,
                                  Kind::GrpcRoute, Kind::Ingress,   Kind::Service};
  settings.gateway_names.services = {{"class-1", "ns-0/service-0"}};
  return settings;
}

ObjectMeta named(std::string ns, std::string name) {
  ObjectMeta meta;
  meta.ns = std::move(ns);
  meta.name = std::move(name);
  return meta;
}

TEST(GatewayNamesTest, CommonHostnames) {
  struct Case {
    std::string_view listener;
    std::string_view route;
    std::optional<std::string> common;
  };
  for (const Case& c : {
           Case{"", "a.example.org", "a.example.org"},
           Case{"a.example.org", "", "a.example.org"},
           Case{"", "", ""},
           Case{"a.example.org", "a.example.org", "a.example.org"},
           Case{"a.example.org", "b.example.org", std::nullopt},
           Case{"*.example.org", "a.example.org", "a.example.org"},
           Case{"*.example.org", "a.b.example.org", "a.b.example.org"},
           Case{"*.example.org", "example.org", std::nullopt},
           Case{"*.example.org", "notexample.org", std::nullopt},
           Case{"a.example.org", "*.example.org", "a.example.org"},
           Case{"example.org", "*.example.org", std::nullopt},
           Case{"*.example.org", "*.example.org", "*.example.org"},
           Case{"*.example.org", "*.a.example.org", "*.a.example.org"},
           Case{"*.a.example.org", "*.example.org", "*.a.example.org"},
           Case{"*.a.example.org", "*.b.example.org", std::nullopt},
       })
    EXPECT_EQ(common_hostname(c.listener, c.route), c.common) << c.listener << " " << c.route;
}

TEST(GatewayNamesTest, ADisabledFeatureTakesNoNamesOfStoredObjects) {
  Ingress ingress;
  ingress.meta = named("shop", "i");
  ingress.hosts = {"api.example.org"};
  ingress.addresses = {"192.0.2.1"};
  TestRegistry off;
  off.add({ingress});
  EXPECT_EQ(off.ask("api.example.org"), "none");
  off.registry().set_settings(all_gateway_names());
  EXPECT_EQ(off.ask("api.example.org"), "exact vips 192.0.2.1");
  off.registry().set_settings({});
  EXPECT_EQ(off.ask("api.example.org"), "none");
}

TEST(GatewayNamesTest, AClientGetsTheAddressInItsOwnCluster) {
  TestRegistry registry(all_gateway_names());
  const auto add = [&](const std::string& cluster, const std::string& ip) {
    KubeService service;
    service.meta = named("shop", "web");
    service.meta.cluster = cluster;
    service.cluster_ips = {*IpAddress::parse(ip)};
    service.dns = DnsAnnotations{.hostnames = {"web.example.org"}, .targets = {}};
    registry.add({service});
  };
  add("east", "10.1.0.1");
  EXPECT_EQ(registry.ask("web.example.org"), "exact vips 10.1.0.1");
  add("west", "10.2.0.1");
  for (const auto& [cluster, addresses] :
       {std::pair("east", "10.1.0.1"), std::pair("west", "10.2.0.1"),
        std::pair("", "10.1.0.1 10.2.0.1"), std::pair("north", "10.1.0.1 10.2.0.1")}) {
    ClientIdentity identity;
    identity.ns = "web";
    identity.cluster = cluster;
    registry.be(identity);
    EXPECT_EQ(registry.ask("web.example.org"), std::string("exact vips ") + addresses) << cluster;
  }
}

TEST(GatewayNamesTest, AServiceWithoutTheLabelIsNoMoreInFrontOfTheGateway) {
  TestRegistry registry(all_gateway_names());
  Gateway gateway;
  gateway.meta = named("shop", "web");
  gateway.listeners.emplace_back().hostname = "api.example.org";
  KubeService service;
  service.meta = named("shop", "front");
  service.meta.labels = {{"gateway.networking.k8s.io/gateway-name", "web"}};
  service.cluster_ips = {*IpAddress::parse("10.96.0.9")};
  registry.add({gateway, service});
  EXPECT_EQ(registry.ask("api.example.org"), "exact vips 10.96.0.9");
  service.meta.labels.clear();
  registry.add({service});
  EXPECT_EQ(registry.ask("api.example.org"), "none");
}

TEST(GatewayNamesTest, RefusesNamesOfTheClusterAndSaysSoOnce) {
  TestRegistry registry(all_gateway_names());
  Ingress ingress;
  ingress.meta = named("evil", "i");
  ingress.hosts = {"db.bank.svc.cluster.local", "*.org", "good.example.org"};
  ingress.addresses = {"192.0.2.1"};
  const Changes summary = registry.add({ingress});
  ASSERT_EQ(summary.refused.size(), 2U);
  EXPECT_EQ(summary.refused[0].host, "*.org");
  EXPECT_EQ(summary.refused[1].host, "db.bank.svc.cluster.local");
  EXPECT_EQ(registry.ask("db.bank.svc.cluster.local"), "none");
  EXPECT_EQ(registry.ask("x.org"), "none");
  EXPECT_EQ(registry.ask("good.example.org"), "exact vips 192.0.2.1");
  ingress.addresses = {"192.0.2.2"};
  EXPECT_TRUE(registry.add({ingress}).refused.empty());
}

// Objects with few names, so that most of them have to do with each other.
class RandomObjects {
 public:
  explicit RandomObjects(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  ObjectMeta meta(std::string_view kind, std::size_t names) {
    ObjectMeta meta;
    meta.name = numbered(kind, names);
    meta.ns = numbered("ns", 2);
    meta.creation_time = static_cast<std::int64_t>(below(3));
    return meta;
  }
  std::string host() {
    constexpr const char* kHosts[] = {"a.example.org", "*.example.org", "b.a.example.org",
                                      "*.a.example.org", "example.com"};
    return kHosts[below(std::size(kHosts))];
  }
  std::string address() { return "192.0.2." + std::to_string(below(4)); }

  Resource make() {
    switch (below(5)) {
      case 0:
        return gateway();
      case 1: {
        Ingress ingress;
        ingress.meta = meta("ingress", 2);
        ingress.class_name = numbered("class", 2);
        ingress.hosts = {host(), host()};
        if (below(2) == 0) ingress.addresses = {address()};
        return ingress;
      }
      case 2:
        return service();
      case 3: {
        Namespace ns;
        ns.meta.name = numbered("ns", 2);
        if (below(2) == 0) ns.meta.labels = {{"team", "a"}};
        return ns;
      }
      default:
        return route();
    }
  }

 private:
  std::string numbered(std::string_view text, std::size_t n) {
    return std::string(text) + "-" + std::to_string(below(n));
  }
  Resource gateway() {
    Gateway gateway;
    gateway.meta = meta("gateway", 2);
    gateway.class_name = numbered("class", 2);
    GatewayListener listener;
    listener.hostname = below(2) == 0 ? host() : "";
    listener.kinds = {Kind::HttpRoute};
    listener.from = static_cast<RouteNamespaces>(below(4));
    listener.namespaces.match_labels = {{"team", "a"}};
    gateway.listeners = {listener};
    if (below(2) == 0) gateway.addresses = {address()};
    return gateway;
  }
  Resource route() {
    GatewayRoute route;
    route.meta = meta("route", 3);
    if (below(3) != 0) route.hostnames = {host()};
    route.parents = {{numbered("ns", 2), numbered("gateway", 2), "", 0},
                     {numbered("ns", 2), numbered("gateway", 2), "", 0}};
    return route;
  }
  Resource service() {
    KubeService service;
    service.meta = meta(below(2) == 0 ? "service" : "gateway-0-class", 2);
    if (below(3) == 0)
      service.meta.labels = {{"gateway.networking.k8s.io/gateway-name", numbered("gateway", 2)}};
    service.headless = below(4) == 0;
    if (!service.headless && below(4) != 0) service.cluster_ips = {*IpAddress::parse(address())};
    if (below(3) == 0) service.dns = DnsAnnotations{.hostnames = {host()}, .targets = {}};
    return service;
  }

  std::mt19937 random_;
};

// The answers are those of a registry that has had only the objects at the end.
TEST(GatewayNamesTest, DoNotDependOnHistory) {
  constexpr const char* kQuestions[] = {"a.example.org", "x.example.org", "b.a.example.org",
                                        "x.a.example.org", "example.com"};
  for (unsigned seed = 0; seed < 5; ++seed) {
    RandomObjects objects(seed);
    TestRegistry registry(all_gateway_names());
    std::map<ResourceKey, Resource> held;
    for (int step = 0; step < 60; ++step) {
      const Resource resource = objects.make();
      const ResourceKey key = key_of(resource);
      if (objects.below(3) == 0 && held.erase(key) != 0) {
        registry.remove(key);
      } else {
        held.insert_or_assign(key, resource);
        registry.add({resource});
      }
      if (step % 6 != 0) continue;
      TestRegistry fresh(all_gateway_names());
      std::vector<Resource> all;
      for (const auto& [each, value] : held) all.push_back(value);
      fresh.add(all);
      for (const char* const ns : {"ns-0", "other"}) {
        registry.be_in(ns);
        fresh.be_in(ns);
        for (const char* const question : kQuestions)
          ASSERT_EQ(registry.ask(question), fresh.ask(question))
              << question << " in " << ns << ", seed " << seed << ", step " << step;
      }
    }
    for (const auto& [key, value] : held) registry.remove(key);
    for (const char* const question : kQuestions) EXPECT_EQ(registry.ask(question), "none");
  }
}

}  // namespace
}  // namespace meshdns::registry
