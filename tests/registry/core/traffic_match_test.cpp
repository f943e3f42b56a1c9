// SPDX-License-Identifier: Apache-2.0
#include "registry/traffic/traffic_match.hpp"

#include <gtest/gtest.h>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr std::string_view kMesh = R"(
ServiceEntry shop/api {creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  hosts: [api.example.org]
  addresses: [10.0.0.7, "2001:db8::7"]
  ports: [{ number: 443, name: https, protocol: TLS }, { number: 80, name: http, protocol: HTTP }]
  resolution: STATIC
  endpoints: [{ address: 10.1.0.1, ports: { http: 8080 } }, { address: 10.1.0.2 }]
ServiceEntry shop/mongo {creationTimestamp: "2026-01-02T00:00:00Z"}
spec:
  hosts: [mongo.example.org]
  addresses: [10.9.0.0/16]
  ports: [{ number: 27017, name: mongo, protocol: MONGO }]
  resolution: STATIC
  endpoints: [{ address: 10.1.1.1 }]
ServiceEntry shop/mongo-near {creationTimestamp: "2026-01-03T00:00:00Z"}
spec:
  hosts: [near.example.org]
  addresses: [10.9.1.0/24]
  ports: [{ number: 27017, name: mongo, protocol: MONGO }]
  resolution: STATIC
  endpoints: [{ address: 10.1.1.2 }]
ServiceEntry shop/wiki
spec:
  hosts: ["*.wikipedia.org"]
  ports: [{ number: 443, name: tls, protocol: TLS }]
  resolution: NONE
ServiceEntry shop/de-wiki
spec:
  hosts: [de.wikipedia.org]
  ports: [{ number: 443, name: tls, protocol: TLS }]
  resolution: DNS
ServiceEntry shop/smtp
spec:
  hosts: [mail.example.org]
  ports: [{ number: 25, name: smtp, protocol: TCP, targetPort: 2525 }]
  resolution: DNS
ServiceEntry shop/vms
spec:
  hosts: [details.example.org]
  ports: [{ number: 9080, name: http, protocol: HTTP }]
  resolution: STATIC
  workloadSelector: { labels: { app: details } }
WorkloadEntry shop/vm
spec: { address: 10.3.0.1, labels: { app: details }, ports: { http: 9081 } }
ServiceEntry other/hidden
spec:
  hosts: [hidden.example.org]
  addresses: [10.0.0.9]
  ports: [{ number: 443, name: tcp, protocol: TCP }]
  resolution: STATIC
  endpoints: [{ address: 10.1.0.9 }]
  exportTo: ["."]
Service shop/web
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80, name: http, targetPort: 8080 }, { port: 53, name: dns, protocol: UDP }] }
EndpointSlice shop/web-1 {labels: { kubernetes.io/service-name: web }}
addressType: IPv4
ports: [{ port: 8080, name: http }]
endpoints: [{ addresses: [10.4.0.1] }, { addresses: [10.4.0.2], conditions: { ready: false } }]
Service shop/mixed
spec:
  clusterIP: 10.96.0.2
  ports:
  - { port: 80, name: http, appProtocol: tcp }
  - { port: 81, name: plain }
  - { port: 443, name: https }
Service shop/db
spec: { clusterIP: None, ports: [{ port: 5432, name: tcp-pg, targetPort: 15432 }] }
EndpointSlice shop/db-1 {labels: { kubernetes.io/service-name: db }}
addressType: IPv4
ports: [{ port: 15432, name: tcp-pg }]
endpoints: [{ addresses: [10.5.0.1], hostname: db-0 }, { addresses: [10.5.0.2], hostname: db-1 }]
Service shop/alias
spec: { type: ExternalName, externalName: api.example.org }
Service shop/wiki
spec: { type: ExternalName, externalName: de.wikipedia.org }
Service shop/pages
spec: { clusterIP: None, ports: [{ port: 8080, name: http }, { port: 8443, name: https }] }
EndpointSlice shop/pages-1 {labels: { kubernetes.io/service-name: pages }}
addressType: IPv4
ports: [{ port: 8080, name: http }, { port: 8443, name: https }]
endpoints: [{ addresses: [10.6.0.1], hostname: pages-0 }, { addresses: [10.6.0.2] }]
Service shop/odd
spec:
  clusterIP: None
  ports:
  - { port: 80, name: http, appProtocol: tcp }
  - { port: 81, name: tcp-a, appProtocol: HTTP }
  - { port: 82, name: tcp-b, appProtocol: kubernetes.io/h2c }
  - { port: 83, name: tcp-c, appProtocol: grpc-web-x }
  - { port: 84, name: http-d, appProtocol: kubernetes.io/wss }
EndpointSlice shop/odd-1 {labels: { kubernetes.io/service-name: odd }}
addressType: IPv4
endpoints: [{ addresses: [10.7.0.1] }]
ServiceEntry shop/range
spec:
  hosts: [range.example.org]
  addresses: [10.8.0.0/16]
  ports: [{ number: 8443, name: tls, protocol: TLS }]
  resolution: STATIC
  endpoints: [{ address: 10.1.2.1 }]
)";

class TrafficMatchTest : public testing::Test {
 protected:
  TrafficMatchTest() {
    registry_.be_in("shop");
    registry_.load(kMesh);
  }

  // "api.example.org:443 by address and port -> 10.1.0.1:443 10.1.0.2:443", "passthrough" or
  // "dropped".
  std::string match(std::string_view address, std::uint16_t port, std::string sni = "",
                    std::string host = "") {
    const auto snapshot = registry_.registry().current();
    const View view(*snapshot, *snapshot->default_client);
    const TrafficMatch found =
        match_traffic(view, {*IpAddress::parse(address), port, std::move(sni), std::move(host)});
    notes_ = found.notes;
    if (found.service == nullptr) return std::string(to_string(found.rule));
    std::string text = found.host + ":" + std::to_string(found.port.number) + " by " +
                       std::string(to_string(found.rule)) + " ->";
    for (const std::string& endpoint : found.endpoints) text += " " + endpoint;
    return text;
  }
  bool noted(std::string_view words) const {
    return std::ranges::any_of(
        notes_, [&](const auto& note) { return note.find(words) != std::string::npos; });
  }

  TestRegistry registry_;
  std::vector<std::string> notes_;
};

TEST_F(TrafficMatchTest, RegistryOnlyDropsWhatHasNoService) {
  registry_.load(
      "Sidecar shop/default\nspec: { outboundTrafficPolicy: { mode: REGISTRY_ONLY } }\n"
      "VirtualService shop/old\nspec: { hosts: [old.example.net], http: [{ redirect: { authority: "
      "new.example.net } }] }\n");
  EXPECT_EQ(match("10.0.0.7", 81), "dropped");
  EXPECT_EQ(match("192.0.2.1", 443, "wikipedia.org"), "dropped");
  EXPECT_EQ(match("10.0.0.7", 80, "", "www.example.net"), "dropped");
  EXPECT_EQ(match("192.0.2.1", 80, "", "192.0.2.1"), "dropped") << "by the address in the header";
  EXPECT_EQ(match("192.0.2.1", 80, "", "old.example.net"), "passthrough")
      << "a VirtualService routes the host";
  EXPECT_EQ(match("10.0.0.7", 80),
            "api.example.org:80 by address and port -> 10.1.0.1:8080 10.1.0.2:80");
}

TEST_F(TrafficMatchTest, AVipAndItsPortAreTheService) {
  EXPECT_EQ(match("10.0.0.7", 80),
            "api.example.org:80 by address and port -> 10.1.0.1:8080 10.1.0.2:80");
  EXPECT_TRUE(noted("--host"));
  EXPECT_EQ(match("2001:db8::7", 443),
            "api.example.org:443 by address and port -> 10.1.0.1:443 10.1.0.2:443");
  EXPECT_EQ(match("10.96.0.1", 80),
            "web.shop.svc.cluster.local:80 by address and port -> 10.4.0.1:8080 "
            "10.4.0.2:8080, not ready");
  EXPECT_EQ(match("10.0.0.7", 81), "passthrough");
  EXPECT_EQ(match("10.96.0.1", 53), "passthrough") << "a UDP port takes no connection";
}

TEST_F(TrafficMatchTest, TheLongestRangeWins) {
  EXPECT_EQ(match("10.9.7.7", 27017),
            "mongo.example.org:27017 by address range and port -> 10.1.1.1:27017");
  EXPECT_EQ(match("10.9.1.7", 27017),
            "near.example.org:27017 by address range and port -> 10.1.1.2:27017");
  EXPECT_EQ(match("10.8.0.1", 27017), "passthrough");
}

TEST_F(TrafficMatchTest, TheServerNameDecidesForTls) {
  EXPECT_EQ(match("192.0.2.1", 443, "en.wikipedia.org"),
            "*.wikipedia.org:443 by TLS server name -> 192.0.2.1:443");
  EXPECT_EQ(match("192.0.2.1", 443, "DE.wikipedia.org"),
            "de.wikipedia.org:443 by TLS server name -> de.wikipedia.org:443");
  EXPECT_EQ(match("192.0.2.1", 443, "wikipedia.org"), "passthrough");
  EXPECT_EQ(match("192.0.2.1", 443, "api.example.org"), "passthrough");
  EXPECT_TRUE(noted("not one of its addresses"));
  EXPECT_EQ(match("10.8.1.1", 8443, "range.example.org"),
            "range.example.org:8443 by TLS server name -> 10.1.2.1:8443");
  EXPECT_EQ(match("10.8.1.1", 8443, "www.example.net"), "passthrough");
  EXPECT_TRUE(noted("not the server name"));
  EXPECT_EQ(match("10.8.1.1", 8443), "passthrough");
  EXPECT_TRUE(noted("--sni"));
}

TEST_F(TrafficMatchTest, TheServerNameDoesNotMatterAtAVip) {
  for (const char* sni : {"", "api.example.org", "www.example.net", "de.wikipedia.org"}) {
    EXPECT_EQ(match("10.0.0.7", 443, sni),
              "api.example.org:443 by address and port -> 10.1.0.1:443 10.1.0.2:443")
        << sni;
    EXPECT_EQ(noted("the address decides"), !std::string_view(sni).empty());
  }
}

TEST_F(TrafficMatchTest, AnAliasIsAnExtraServerNameOfItsTarget) {
  for (const char* sni : {"wiki", "wiki.shop.svc.cluster.local"})
    EXPECT_EQ(match("192.0.2.1", 443, sni),
              "de.wikipedia.org:443 by TLS server name -> de.wikipedia.org:443");
  EXPECT_TRUE(noted("ExternalName"));
}

TEST_F(TrafficMatchTest, TheHostDecidesForHttpWhateverTheAddress) {
  for (const char* host : {"api.example.org", "API.example.org:80"})
    EXPECT_EQ(match("203.0.113.1", 80, "", host),
              "api.example.org:80 by HTTP host -> 10.1.0.1:8080 10.1.0.2:80");
  for (const char* host : {"web", "web.shop", "web.shop.svc.cluster.local"})
    EXPECT_EQ(match("203.0.113.1", 80, "", host).substr(0, 41),
              "web.shop.svc.cluster.local:80 by HTTP hos");
  EXPECT_EQ(match("10.0.0.7", 80, "", "www.example.net"), "passthrough");
  EXPECT_EQ(match("203.0.113.1", 80, "", "10.96.0.1").substr(0, 29),
            "web.shop.svc.cluster.local:80");
  EXPECT_EQ(match("203.0.113.1", 9999, "", "api.example.org"), "passthrough");
  EXPECT_TRUE(noted("has no port 9999"));
}

TEST_F(TrafficMatchTest, TheHostDoesNotMatterWhereAListenerIsTheServicesOwn) {
  for (const int port : {80, 81, 443})
    for (const char* host : {"api.example.org", "www.example.net", "mixed"}) {
      EXPECT_EQ(match("10.96.0.2", static_cast<std::uint16_t>(port), "", host),
                "mixed.shop.svc.cluster.local:" + std::to_string(port) + " by address and port ->")
          << host;
      EXPECT_TRUE(noted("the address decides, the Host header does not")) << port;
    }
  EXPECT_EQ(match("10.5.0.1", 5432, "", "api.example.org"),
            "db.shop.svc.cluster.local:5432 by endpoint of a headless service -> 10.5.0.1:15432");
  EXPECT_EQ(match("10.6.0.1", 8080, "", "www.example.net"), "passthrough");
  EXPECT_FALSE(noted("--host"));
}

TEST_F(TrafficMatchTest, AnExternalNameIsAnExtraMatchOfItsTarget) {
  EXPECT_EQ(match("203.0.113.1", 80, "", "alias.shop"),
            "api.example.org:80 by HTTP host -> 10.1.0.1:8080 10.1.0.2:80");
  EXPECT_TRUE(noted("ExternalName"));
}

TEST_F(TrafficMatchTest, EndpointsOfHeadlessServicesAreMatchedOneByOne) {
  EXPECT_EQ(match("10.5.0.2", 5432),
            "db.shop.svc.cluster.local:5432 by endpoint of a headless service -> 10.5.0.2:15432");
  EXPECT_EQ(match("10.5.0.2", 15432),
            "db.shop.svc.cluster.local:5432 by endpoint of a headless service -> 10.5.0.2:15432");
  EXPECT_EQ(match("10.5.0.9", 5432), "passthrough");
  EXPECT_EQ(match("10.4.0.1", 8080), "passthrough") << "not of a Service with a clusterIP";
}

TEST_F(TrafficMatchTest, TheHostDecidesForHttpOfHeadlessServices) {
  EXPECT_EQ(match("10.6.0.1", 8080), "passthrough");
  EXPECT_TRUE(noted("the Host header decides"));
  for (const char* host : {"pages.shop.svc.cluster.local", "pages-0.pages.shop.svc.cluster.local"})
    EXPECT_EQ(match("10.6.0.2", 8080, "", host),
              "pages.shop.svc.cluster.local:8080 by HTTP host -> 10.6.0.2:8080")
        << host;
  EXPECT_EQ(match("203.0.113.1", 8080, "", "pages"),
            "pages.shop.svc.cluster.local:8080 by HTTP host -> 10.6.0.1:8080 10.6.0.2:8080");
  EXPECT_EQ(match("10.6.0.1", 8443, "anything.example.net"),
            "pages.shop.svc.cluster.local:8443 by endpoint of a headless service -> 10.6.0.1:8443")
      << "TLS is matched by the endpoint";
}

TEST_F(TrafficMatchTest, TheAppProtocolComesBeforeThePortName) {
  EXPECT_EQ(match("10.7.0.1", 80),
            "odd.shop.svc.cluster.local:80 by endpoint of a headless service -> 10.7.0.1:80")
      << "appProtocol tcp, name http";
  for (const int port : {81, 82, 83}) {
    EXPECT_EQ(match("10.7.0.1", static_cast<std::uint16_t>(port)), "passthrough") << port;
    EXPECT_TRUE(noted("its port is HTTP")) << port;
  }
  EXPECT_EQ(match("10.7.0.1", 84),
            "odd.shop.svc.cluster.local:84 by endpoint of a headless service -> 10.7.0.1:84");
}

TEST_F(TrafficMatchTest, AnEntryWithoutAddressesOwnsItsPort) {
  EXPECT_EQ(match("192.0.2.1", 25), "mail.example.org:25 by port -> mail.example.org:2525");
  EXPECT_EQ(match("192.0.2.1", 9080), "passthrough");
  EXPECT_TRUE(noted("Host header"));
}

TEST_F(TrafficMatchTest, SelectedWorkloadsHaveTheirOwnPorts) {
  EXPECT_EQ(match("192.0.2.1", 9080, "", "details.example.org"),
            "details.example.org:9080 by HTTP host -> 10.3.0.1:9081");
}

TEST_F(TrafficMatchTest, AListenerOfASidecarImportsItsPortAlone) {
  registry_.load(R"(
Sidecar shop/narrow
spec:
  egress:
  - { port: { number: 80, protocol: HTTP, name: http }, hosts: ["shop/*"] }
  - { port: { number: 5432, protocol: TCP, name: pg }, hosts: ["shop/db.shop.svc.cluster.local"] }
)");
  EXPECT_EQ(match("10.0.0.7", 80, "", "api.example.org"),
            "api.example.org:80 by HTTP host -> 10.1.0.1:8080 10.1.0.2:80");
  EXPECT_EQ(match("10.0.0.7", 443), "passthrough");
  EXPECT_EQ(match("10.96.0.2", 443), "passthrough");
  EXPECT_EQ(match("10.0.0.7", 443, "", "api.example.org"), "passthrough");
  EXPECT_TRUE(noted("the client's Sidecar does not import port 443 of api.example.org"));
  EXPECT_EQ(match("10.5.0.1", 5432),
            "db.shop.svc.cluster.local:5432 by endpoint of a headless service -> 10.5.0.1:15432");
  EXPECT_EQ(match("10.7.0.1", 84), "passthrough") << "odd has port 80, too";
}

TEST_F(TrafficMatchTest, HiddenServicesMatchNothing) {
  EXPECT_EQ(match("10.0.0.9", 443), "passthrough");
  EXPECT_EQ(match("10.0.0.9", 443, "", "hidden.example.org"), "passthrough");
  registry_.be_in("other");
  EXPECT_EQ(match("10.0.0.9", 443), "hidden.example.org:443 by address and port -> 10.1.0.9:443");
}

}  // namespace
}  // namespace meshdns::registry
