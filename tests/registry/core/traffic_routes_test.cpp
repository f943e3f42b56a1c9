// SPDX-License-Identifier: Apache-2.0
// The VirtualServices that explanations of connections name.
#include "registry/traffic/traffic_match.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "registry/analysis/analysis.hpp"
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
    const TrafficMatch match =
        match_traffic(view, {*IpAddress::parse(address), port, std::move(sni), std::move(host)});
    notes_ = match.notes;
    for (const RouteMatched& route : match.routes)
      lines.push_back(std::string(route.virtual_service->ns()) + "/" +
                      std::string(route.virtual_service->name()) + " " + route.text);
    return lines;
  }

  // Returns the notes about the destination of a route for the connection.
  std::vector<std::string> notes_about(std::string_view destination, std::uint16_t port = 80) {
    add("to", "{ hosts: [reviews], http: [{ route: [{ destination: { host: \"" +
                  std::string(destination) +
                  "\" } }] }], tcp: [{ route: [{ destination: { host: \"" +
                  std::string(destination) + "\" } }] }] }");
    EXPECT_EQ(routes("10.96.0.1", port).size(), 1U);
    std::erase_if(notes_,
                  [](const std::string& note) { return !note.starts_with("the route to "); });
    return notes_;
  }

  TestRegistry registry_;
  std::vector<std::string> notes_;
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

constexpr std::string_view kDestinations = R"(
Service shop/alias
spec: { type: ExternalName, externalName: reviews.shop.svc.cluster.local }
Service shop/second
spec: { type: ExternalName, externalName: alias.shop.svc.cluster.local }
Service shop/outside
spec: { type: ExternalName, externalName: www.example.org }
Service shop/to-hidden
spec: { type: ExternalName, externalName: hidden.bank.svc.cluster.local }
Service bank/hidden {annotations: { networking.istio.io/exportTo: "." }}
spec: { clusterIP: 10.96.0.9, ports: [{ port: 80, name: http }] }
Service shop/starting
spec: { ports: [{ port: 80, name: http }] }
)";

TEST_F(TrafficRoutesTest, AnAliasLeadsToItsTarget) {
  registry_.load(kDestinations);
  EXPECT_THAT(notes_about("reviews"), IsEmpty());
  EXPECT_THAT(notes_about("*.wikipedia.org"), IsEmpty());
  EXPECT_THAT(notes_about("starting"), IsEmpty()) << "it has no address yet";
  EXPECT_THAT(notes_about("web.elsewhere.svc.cluster.local"), IsEmpty())
      << "no Service of that namespace was read";
  EXPECT_THAT(notes_about("alias"), ElementsAre("the route to alias.shop.svc.cluster.local, an "
                                                "ExternalName, leads to "
                                                "reviews.shop.svc.cluster.local"));
}

TEST_F(TrafficRoutesTest, ARouteToWhatTheClientDoesNotSeeFails) {
  registry_.load(kDestinations);
  const auto fails = [](const std::string& host, const std::string& why) {
    return ElementsAre("the route to " + host + " fails: " + why + ", and requests get status 503");
  };
  for (const char* host : {"ratings.shop.svc.cluster.local", "reviews.shop", "de.wikipedia.org",
                           "hidden.bank.svc.cluster.local", "x.reviews.shop.svc.cluster.local"})
    EXPECT_THAT(notes_about(host), fails(host, "the client sees no service with this host"));
  const std::string zone = ".shop.svc.cluster.local";
  EXPECT_THAT(notes_about("to-hidden"),
              fails("to-hidden" + zone,
                    "it is an ExternalName of hidden.bank.svc.cluster.local, and the client sees "
                    "no service with that host"));
  EXPECT_THAT(notes_about("outside"),
              fails("outside" + zone,
                    "it is an ExternalName of www.example.org, and the client "
                    "sees no service with that host"));
  EXPECT_THAT(notes_about("second"),
              fails("second" + zone, "it is an ExternalName of alias" + zone +
                                         ", which is one, too; proxies follow one alone"));
  EXPECT_THAT(notes_about("ratings", 90),
              ElementsAre("the route to ratings" + zone +
                          " fails: the client sees no service with this host, and connections "
                          "are closed"));
  registry_.be_in("bank");
  EXPECT_THAT(notes_about("hidden.bank.svc.cluster.local"), IsEmpty());
}

TEST_F(TrafficRoutesTest, ASidecarDoesNotHideDestinations) {
  registry_.load(
      "Service bank/web\nspec: { clusterIP: 10.96.0.8, ports: [{ port: 80, name: http }] }\n"
      "Sidecar shop/s\nspec: { egress: [{ hosts: [\"./*\"] }] }\n");
  EXPECT_EQ(registry_.ask("web.bank.svc.cluster.local"), "none");
  EXPECT_THAT(notes_about("web.bank.svc.cluster.local"), IsEmpty());
}

TEST_F(TrafficRoutesTest, OneNoteForADestinationOfSeveralRoutes) {
  add("two", R"({ hosts: [reviews], http: [
    { match: [{ uri: { prefix: /a } }], route: [{ destination: { host: none } }, { destination: { host: none } }] },
    { route: [{ destination: { host: none } }] }] })");
  EXPECT_EQ(routes("10.96.0.1", 80).size(), 2U);
  EXPECT_EQ(std::ranges::count_if(
                notes_, [](const std::string& note) { return note.starts_with("the route to "); }),
            1);
}

// A service of a random world, as plain as the rules are.
struct DrawnService {
  std::string host;
  std::string ns;
  std::string export_to;  // "*", ".", "~" or a namespace
  bool is_kubernetes = false;
  std::string alias;  // of an ExternalName

  bool is_seen_from(std::string_view client) const {
    return export_to == "*" || (export_to == "." ? ns == client : export_to == client);
  }
};

class DrawnServices {
 public:
  explicit DrawnServices(std::uint64_t seed) : random_(seed) {
    for (const char* ns : {"shop", "bank"})
      for (const char* name : {"a", "b", "c"})
        if (below(3) != 0) add_kubernetes(name, ns);
    manifest_ += "Service bank/other\nspec: { clusterIP: 10.97.1.1, ports: [{ port: 80 }] }\n";
    for (std::size_t i = below(6); i > 0; --i)
      add_entry(
          "e" + std::to_string(i),
          {any({"a.example.org", "b.example.org", "*.example.org", "a.shop.svc.cluster.local"}),
           any({"shop", "bank", "web"}), any({"*", ".", "~", "shop", "web"})});
  }

  // "ok", "alias", or "fails".
  std::string outcome(std::string_view client, std::string_view host) const {
    const DrawnService* const first = chosen(client, host);
    if (first == nullptr) return "fails";
    if (first->alias.empty()) return "ok";
    const DrawnService* const next = chosen(client, first->alias);
    return next != nullptr && next->alias.empty() ? "alias" : "fails";
  }

  std::string any(std::initializer_list<std::string> all) { return all.begin()[below(all.size())]; }
  const std::string& manifest() const { return manifest_; }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void add_kubernetes(const std::string& name, const std::string& ns) {
    DrawnService service{
        name + "." + ns + ".svc.cluster.local", ns, any({"*", "*", ".", "~", "web"}), true, {}};
    if (below(2) == 0)
      service.alias = any({"a.shop.svc.cluster.local", "b.bank.svc.cluster.local",
                           "c.shop.svc.cluster.local", "a.example.org"});
    if (service.alias == service.host) service.alias = "x.example.org";
    manifest_ += "Service " + ns + "/" + name +
                 " {annotations: { networking.istio.io/exportTo: \"" + service.export_to +
                 "\" }}\nspec: ";
    manifest_ += service.alias.empty()
                     ? "{ clusterIP: 10.97.0." + std::to_string(services_.size() + 1)
                     : "{ type: ExternalName, externalName: " + service.alias;
    manifest_ += ", ports: [{ port: 80, name: http }] }\n";
    services_.push_back(std::move(service));
  }

  void add_entry(const std::string& name, const DrawnService& service) {
    manifest_ += "ServiceEntry " + service.ns + "/" + name + "\nspec: { hosts: [\"" + service.host +
                 "\"], exportTo: [\"" + service.export_to +
                 "\"], ports: [{ number: 80, name: http, protocol: HTTP }], resolution: NONE }\n";
    services_.push_back(service);
  }

  // The one of the client's namespace, else a Kubernetes Service, which also comes first in its
  // namespace.
  const DrawnService* chosen(std::string_view client, std::string_view host) const {
    const DrawnService* best = nullptr;
    int best_rank = 0;
    for (const DrawnService& each : services_) {
      if (each.host != host || !each.is_seen_from(client)) continue;
      const int rank = (each.ns == client ? 3 : 1) + (each.is_kubernetes ? 1 : 0);
      if (rank > best_rank) best = &each;
      best_rank = std::max(rank, best_rank);
    }
    return best;
  }

  std::mt19937_64 random_;
  std::vector<DrawnService> services_;
  std::string manifest_;
};

// A finding says that a route fails for all clients: for none of them may it lead anywhere.
TEST_F(TrafficRoutesTest, DestinationsAreThoseOfAPlainModel) {
  const std::string zone = ".svc.cluster.local";
  std::map<std::string, int> outcomes;
  int findings = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    DrawnServices drawn(seed);
    registry_.load(drawn.manifest());
    for (int i = 0; i < 6; ++i) {
      const std::string written =
          drawn.any({"a", "b", "c", "a.shop" + zone, "b.bank" + zone, "c.bank" + zone,
                     "a.example.org", "x.example.org", "*.example.org", "a.shop"});
      const std::string host =
          written.find('.') == std::string::npos ? written + ".shop" + zone : written;
      bool fails_for_all = true;
      for (const std::string client : {"shop", "bank", "web", "other"}) {
        registry_.be_in(client);
        const auto notes = notes_about(written);
        const std::string outcome = notes.empty()                                         ? "ok"
                                    : notes.front().find(" fails: ") != std::string::npos ? "fails"
                                                                                          : "alias";
        EXPECT_EQ(outcome, drawn.outcome(client, host))
            << client << " to " << written << ", seed " << seed << "\n"
            << drawn.manifest();
        fails_for_all &= outcome == "fails";
        ++outcomes[outcome];
      }
      const auto report = analyse(registry_.snapshot());
      const bool is_found = std::ranges::any_of(report.findings, [](const MeshFinding& finding) {
        return finding.kind == FindingKind::RouteToUnknownHost ||
               finding.kind == FindingKind::RouteToHiddenHost;
      });
      EXPECT_TRUE(fails_for_all || !is_found) << written << ", seed " << seed << "\n"
                                              << drawn.manifest();
      findings += is_found ? 1 : 0;
    }
    if (HasFailure()) return;
    for (const Resource& resource : parse(drawn.manifest())) registry_.remove(key_of(resource));
  }
  for (const char* outcome : {"ok", "alias", "fails"}) EXPECT_GT(outcomes[outcome], 50) << outcome;
  EXPECT_GT(findings, 50);
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
