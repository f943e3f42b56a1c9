#include "registry/view/view.hpp"

#include <gtest/gtest.h>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr const char* kTwoHosts = R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: one, namespace: shop }
spec: { hosts: [one.example.org], addresses: [192.0.2.1], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: two, namespace: shop }
spec: { hosts: [two.example.org], addresses: [192.0.2.2], resolution: STATIC }
)";

TEST(ViewTest, TakesTheLikelyEntryForItsOwnNameOnly) {
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

// What lies below what, for a client whose Sidecar has the egress hosts.
TEST(ViewTest, ANameIsThereIfTheSidecarLetsAHostBelowItThrough) {
  constexpr const char* kServices = R"(
apiVersion: v1
kind: Service
metadata: { name: api, namespace: shop }
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http }] }
---
apiVersion: v1
kind: Service
metadata: { name: private, namespace: shop, annotations: { networking.istio.io/exportTo: "." } }
spec: { clusterIP: 10.96.0.2, ports: [{ port: 80, name: http }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: deep, namespace: net }
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
TEST(ViewTest, ANameIsThereIfAListenersPortMayLetAHostThrough) {
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

TEST(ViewTest, ANameGoesWithTheLastHostBelowIt) {
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

}  // namespace
}  // namespace meshdns::registry
