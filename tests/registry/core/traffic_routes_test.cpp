// SPDX-License-Identifier: Apache-2.0
// The VirtualServices that explanations of connections name.
#include "registry/traffic/traffic_match.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kRoutedMesh = R"(
Service shop/reviews
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http }, { port: 90, name: tcp }, { port: 443, name: tls }] }
ServiceEntry shop/wiki
spec: { hosts: ["*.wikipedia.org"], ports: [{ number: 443, name: tls, protocol: TLS }], resolution: NONE }
)";

class TrafficRoutesTest : public testing::Test {
 protected:
  TrafficRoutesTest() {
    registry_.be_in("shop");
    registry_.load(kRoutedMesh);
  }

  void add(std::string_view name, std::string_view spec, std::string_view ns = "shop",
           std::string_view created = "2026-01-01") {
    registry_.load("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: { name: " +
                   std::string(name) + ", namespace: " + std::string(ns) +
                   ", creationTimestamp: \"" + std::string(created) + "T00:00:00Z\" }\nspec:\n  " +
                   std::string(spec) + "\n");
  }

  // "shop/reviews http route 1: to ..."
  std::vector<std::string> routes(std::string_view address, std::uint16_t port,
                                  std::string sni = "", std::string host = "") {
    const auto snapshot = registry_.registry().current();
    const View view(*snapshot, *snapshot->default_client);
    std::vector<std::string> lines;
    for (const RouteMatched& route :
         match_traffic(view, {*IpAddress::parse(address), port, std::move(sni), std::move(host)})
             .routes)
      lines.push_back(std::string(route.virtual_service->ns()) + "/" +
                      std::string(route.virtual_service->name()) + " " + route.text);
    return lines;
  }

  TestRegistry registry_;
};

constexpr std::string_view kToReviews = "to reviews.shop.svc.cluster.local";

TEST_F(TrafficRoutesTest, NamesTheRouteOfAnHttpHost) {
  EXPECT_THAT(routes("10.96.0.1", 80), IsEmpty());
  add("reviews", R"({ hosts: [reviews], http: [
    { name: canary, match: [{ headers: { end-user: { exact: jason } } }, { uri: { prefix: /v2 } }],
      route: [{ destination: { host: reviews, subset: v2 } }] },
    { route: [{ destination: { host: reviews, subset: v1, port: { number: 80 } }, weight: 90 },
              { destination: { host: reviews.example.org }, weight: 10 }] },
    { name: never, route: [{ destination: { host: reviews } }] }] })");
  const auto all = ElementsAre(
      "shop/reviews http route 1 \"canary\": to reviews.shop.svc.cluster.local subset v2, if "
      "header "
      "end-user exact \"jason\"; or uri prefix \"/v2\"",
      "shop/reviews http route 2: to reviews.shop.svc.cluster.local port 80 subset v1 weight 90, "
      "reviews.example.org weight 10");
  for (const char* host : {"reviews", "reviews.shop", "reviews.shop.svc.cluster.local:80"})
    EXPECT_THAT(routes("203.0.113.1", 80, "", host), all) << host;
  EXPECT_THAT(routes("10.96.0.1", 80), all) << "without a Host header: of the service";
  EXPECT_THAT(routes("203.0.113.1", 80, "", "ratings"), IsEmpty());
}

TEST_F(TrafficRoutesTest, ARouteOfAnotherPortOrClientDoesNotApply) {
  add("reviews", R"({ hosts: [reviews.shop.svc.cluster.local], http: [
    { match: [{ port: 81 }], route: [{ destination: { host: a.example.org } }] },
    { match: [{ sourceNamespace: bank }], route: [{ destination: { host: b.example.org } }] },
    { match: [{ sourceLabels: { app: x } }], route: [{ destination: { host: c.example.org } }] },
    { match: [{ gateways: [shop/edge] }], route: [{ destination: { host: d.example.org } }] },
    { match: [{ port: 80, sourceNamespace: shop, gateways: [edge, mesh] }], redirect: { uri: /x } }] })");
  EXPECT_THAT(routes("10.96.0.1", 80, "", "reviews"),
              ElementsAre("shop/reviews http route 5: redirect"));
  registry_.be_in("bank");
  EXPECT_THAT(routes("10.96.0.1", 80, "", "reviews.shop"),
              ElementsAre("shop/reviews http route 2: to b.example.org"));
}

TEST_F(TrafficRoutesTest, OneForGatewaysAloneHidesNoneOfTheMesh) {
  const std::string_view to = R"(http: [{ route: [{ destination: { host: reviews } }] }] })";
  add("edge", R"({ hosts: [reviews], gateways: [edge], )" + std::string(to));
  add("edge-match", R"({ hosts: [reviews], gateways: [edge], http: [{ match: [{ gateways: [mesh] }],
    route: [{ destination: { host: a.example.org } }] }] })");
  EXPECT_THAT(routes("10.96.0.1", 80), IsEmpty());
  add("mesh", R"({ hosts: [reviews], gateways: [edge, mesh], )" + std::string(to));
  EXPECT_THAT(routes("10.96.0.1", 80),
              ElementsAre("shop/mesh http route 1: " + std::string(kToReviews)));
}

TEST_F(TrafficRoutesTest, HttpPassesOverOneWithoutARouteForTheConnection) {
  add("a-tls", R"({ hosts: [reviews], tls: [{ match: [{ sniHosts: [reviews.example.org] }],
    route: [{ destination: { host: a.example.org } }] }] })");
  add("b-port", R"({ hosts: [reviews], http: [{ match: [{ port: 81 }],
    route: [{ destination: { host: b.example.org } }] }] })");
  add("c", R"({ hosts: [reviews], http: [{ match: [{ uri: { prefix: /c } }],
    route: [{ destination: { host: c.example.org } }] }] })");
  add("d",
      R"({ hosts: [reviews], http: [{ route: [{ destination: { host: d.example.org } }] }] })");
  EXPECT_THAT(routes("10.96.0.1", 80),
              ElementsAre("shop/a-tls none of its http routes applies",
                          "shop/b-port none of its http routes applies",
                          "shop/c http route 1: to c.example.org, if uri prefix \"/c\""));
}

TEST_F(TrafficRoutesTest, TheLayerOfThePortDecides) {
  add("reviews",
      R"({ hosts: [reviews], http: [{ route: [{ destination: { host: a.example.org } }] }],
    tcp: [{ match: [{ destinationSubnets: [10.97.0.0/16] }], route: [{ destination: { host: b.example.org } }] },
          { match: [{ destinationSubnets: [10.96.0.1] }], route: [{ destination: { host: c.example.org } }] }],
    tls: [{ match: [{ sniHosts: [other.example.org] }], route: [{ destination: { host: d.example.org } }] },
          { match: [{ sniHosts: ["*.example.org"] }], route: [{ destination: { host: e.example.org } }] },
          { match: [{ sniHosts: [r.example.org] }], route: [{ destination: { host: f.example.org } }] }] })");
  EXPECT_THAT(routes("10.96.0.1", 80), ElementsAre("shop/reviews http route 1: to a.example.org"));
  EXPECT_THAT(routes("10.96.0.1", 90), ElementsAre("shop/reviews tcp route 2: to c.example.org"));
  EXPECT_THAT(routes("10.96.0.1", 443, "R.example.org"),
              ElementsAre("shop/reviews tls route 3: to f.example.org"))
      << "the closest server name, not the first";
  EXPECT_THAT(routes("10.96.0.1", 443, "x.example.org"),
              ElementsAre("shop/reviews tls route 2: to e.example.org"));
  EXPECT_THAT(routes("10.96.0.1", 443, "example.net"),
              ElementsAre("shop/reviews none of its tls routes applies"));
  EXPECT_THAT(
      routes("10.96.0.1", 443).front(),
      "shop/reviews tls route 1: to d.example.org, if the server name is other.example.org");
}

TEST_F(TrafficRoutesTest, TheClosestHostWinsForHttpThenTheOlder) {
  const std::string_view to = R"(, http: [{ route: [{ destination: { host: reviews } }] }] })";
  add("any", R"({ hosts: ["*"])" + std::string(to), "shop", "2020-01-01");
  add("wide", R"({ hosts: ["*.shop.svc.cluster.local"])" + std::string(to), "shop", "2021-01-01");
  EXPECT_THAT(routes("10.96.0.1", 80),
              ElementsAre("shop/wide http route 1: " + std::string(kToReviews)));
  add("young", R"({ hosts: [reviews])" + std::string(to), "shop", "2026-01-02");
  add("old", R"({ hosts: [reviews])" + std::string(to), "shop", "2026-01-01");
  EXPECT_THAT(routes("10.96.0.1", 80),
              ElementsAre("shop/old http route 1: " + std::string(kToReviews)));
}

TEST_F(TrafficRoutesTest, ExportToAndSidecarsApply) {
  const auto spec = [](std::string_view export_to) {
    return "{ hosts: [reviews.shop.svc.cluster.local], exportTo: [" + std::string(export_to) +
           "], http: [{ redirect: {} }] }";
  };
  const auto is_named = [&](const std::string& ns) {
    registry_.be_in(ns);
    return !routes("10.96.0.1", 80).empty();
  };
  add("v", spec(R"(".")"), "bank");
  EXPECT_FALSE(is_named("shop"));
  EXPECT_TRUE(is_named("bank"));
  add("v", spec("shop"), "bank");
  EXPECT_TRUE(is_named("shop"));
  EXPECT_FALSE(is_named("bank"));
  add("v", spec(R"("~")"), "bank");
  EXPECT_FALSE(is_named("bank"));
  add("v", spec(R"("*")"), "bank");
  EXPECT_TRUE(is_named("shop"));
  registry_.load(
      R"({apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s, namespace: shop},
    spec: {egress: [{hosts: ["./*"]}]}})");
  EXPECT_FALSE(is_named("shop")) << "the Sidecar does not import bank's";
  registry_.load(
      R"({apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s, namespace: shop},
    spec: {egress: [{hosts: ["./*", "bank/*.svc.cluster.local"]}]}})");
  EXPECT_TRUE(is_named("shop"));
}

TEST_F(TrafficRoutesTest, ThatOfAHostWithoutAServiceIsNamedToo) {
  add("www",
      R"({ hosts: [www.example.net], http: [{ route: [{ destination: { host: reviews } }] }] })");
  EXPECT_THAT(routes("203.0.113.1", 80, "", "www.example.net"),
              ElementsAre("shop/www http route 1: " + std::string(kToReviews)));
  add("de", R"({ hosts: [de.wikipedia.org], tls: [{ match: [{ sniHosts: [de.wikipedia.org] }],
    route: [{ destination: { host: egress.shop.svc.cluster.local } }] }] })");
  EXPECT_THAT(routes("192.0.2.1", 443, "de.wikipedia.org"),
              ElementsAre("shop/de tls route 1: to egress.shop.svc.cluster.local"));
  EXPECT_THAT(routes("192.0.2.1", 443, "en.wikipedia.org"), IsEmpty());
}

TEST_F(TrafficRoutesTest, ALongListIsCut) {
  std::string spec = "{ hosts: [reviews], http: [";
  for (int i = 0; i < 1'000; ++i)
    spec += "{ match: [{ uri: { prefix: /" + std::to_string(i) + " } }], redirect: {} },";
  add("long", spec + "] }");
  EXPECT_EQ(routes("10.96.0.1", 80).size(), kMaxRoutesNamed);
}

TEST_F(TrafficRoutesTest, WhatCannotBeReadIsLeftOut) {
  add("odd", R"({ hosts: reviews, http: 7, tls: [x, { match: 7, route: 8 }] })");
  add("odder", R"({ hosts: [reviews, ""], gateways: mesh, http: [{ match: [{ port: x, headers: 7 }],
    route: [{ weight: 5 }, { destination: { host: reviews }, weight: -1 }] }] })");
  EXPECT_THAT(routes("10.96.0.1", 80),
              ElementsAre("shop/odder http route 1: " + std::string(kToReviews)));
  registry_.remove({Kind::VirtualService, "", "shop", "odder"});
  EXPECT_THAT(routes("10.96.0.1", 80), IsEmpty());
}

TEST_F(TrafficRoutesTest, AVirtualServiceChangesNoHost) {
  const Changes summary = registry_.load(
      "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v}, spec: "
      "{hosts: "
      "[x.example.org]}}");
  EXPECT_EQ(summary.changed_hosts, 0U);
  EXPECT_EQ(registry_.registry().current()->find_host("x.example.org"), nullptr);
}

}  // namespace
}  // namespace meshdns::registry
