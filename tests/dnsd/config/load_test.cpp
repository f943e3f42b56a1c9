// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::string> findings(std::string_view text) {
  std::vector<std::string> lines;
  for (const registry::Finding& finding : parse_config(text, "m.yaml").findings)
    lines.push_back(finding.to_string());
  return lines;
}

Config good(std::string_view text) {
  const LoadedConfig loaded = parse_config(text, "m.yaml");
  EXPECT_THAT(findings(text), IsEmpty());
  EXPECT_TRUE(loaded.valid());
  return loaded.config;
}

// Other processes run tests of this file at the same time.
std::string test_file() { return testing::TempDir() + "load_test-" + std::to_string(getpid()); }

TEST(LoadTest, EmptyValuesGiveTheDefaults) {
  for (const std::string_view text :
       {"", "# nothing\n", "---\n", "{}", "server:\nmesh: ~\nclient: {default: }\n"})
    EXPECT_EQ(good(text), Config()) << text;
}

TEST(LoadTest, HasTheDocumentedDefaults) {
  const Config c = good("");
  EXPECT_EQ(c.server.listen.front().to_string(), "127.0.0.1:15053");
  EXPECT_EQ(c.server.workers, 0U);
  EXPECT_EQ(c.server.chaos, ChaosAccess::Loopback);
  ASSERT_THAT(c.admin.listen, SizeIs(1));
  EXPECT_EQ(to_string(c.admin.listen.front()), "127.0.0.1:15054");
  EXPECT_EQ(c.log.level, LogLevel::Info);
  EXPECT_EQ(c.mesh.cluster_domain, "cluster.local");
  EXPECT_EQ(c.mesh.root_namespace, "istio-system");
  EXPECT_TRUE(c.mesh.endpoint_answers);
  EXPECT_EQ(c.mesh.auto_allocate, registry::AutoAllocate::Off);
  EXPECT_EQ(c.mesh.ttl.vip, 30U);
  EXPECT_EQ(c.mesh.search_shortcut, registry::SearchShortcut::Known);
  EXPECT_FALSE(c.client.by_source_address);
  EXPECT_EQ(c.client.default_identity.ns, "default");
  EXPECT_THAT(c.sources, IsEmpty());
  EXPECT_THAT(c.upstream.servers, IsEmpty());
  EXPECT_EQ(c.upstream.timeout, 2s);
  EXPECT_EQ(c.cache.size_bytes, 64U << 20);
  EXPECT_EQ(c.cache.max_ttl, 1h);
  EXPECT_EQ(c.cache.negative_max_ttl, 30s);
  EXPECT_EQ(c.cache.serve_stale, 1h);
}

TEST(LoadTest, ReadsServerAdminAndLog) {
  const Config c = good(R"(
server:
  listen: ["0.0.0.0:0", "[::]:53", "[fe80::1%eth0]:53"]
  workers: 4
  allow: [10.0.0.0/8, "2001:db8::/32", 192.0.2.1]
  chaos: off
  tcp: { max_connections: 10, max_connections_per_client: 2, idle_timeout: 500ms }
  nsid: "node-1"
  cpu_affinity: true
admin: { listen: "" }
log: { level: debug, format: json, queries: { class: denial, sample: 0.25 } }
)");
  ASSERT_THAT(c.server.listen, SizeIs(3));
  EXPECT_EQ(c.server.listen[2].to_string(), "[fe80::1%eth0]:53");
  EXPECT_EQ(c.server.workers, 4U);
  ASSERT_THAT(c.server.allow, SizeIs(3));
  EXPECT_TRUE(c.server.allow[2].is_single());
  EXPECT_EQ(c.server.chaos, ChaosAccess::Off);
  EXPECT_EQ(c.server.tcp.idle_timeout, 500ms);
  EXPECT_EQ(c.server.nsid, "node-1");
  EXPECT_TRUE(c.server.cpu_affinity);
  EXPECT_THAT(c.admin.listen, IsEmpty());
  EXPECT_EQ(c.log.level, LogLevel::Debug);
  EXPECT_EQ(c.log.format, LogFormat::Json);
  EXPECT_EQ(c.log.queries.query_class, QueryLogClass::Denial);
  EXPECT_EQ(c.log.queries.sample, 0.25);
}

TEST(LoadTest, NotesTheSettingsThatMeshConfigDoesNotChange) {
  using registry::SettingOrigin;
  const Config none = good("mesh: { root_namespace: null, default_export_to: ~ }");
  EXPECT_EQ(none, Config());
  const Config some = good(
      "mesh: { default_export_to: [\"*\"], service_entry_visibility: {}, outbound_traffic_policy: "
      "REGISTRY_ONLY }");
  EXPECT_EQ(some.mesh.origins.root_namespace, SettingOrigin::Default);
  EXPECT_EQ(some.mesh.origins.default_export_to, SettingOrigin::Configuration);
  EXPECT_EQ(some.mesh.origins.service_entry_visibility, SettingOrigin::Configuration);
  EXPECT_EQ(some.mesh.origins.outbound_policy, SettingOrigin::Configuration);
  EXPECT_EQ(some.mesh.outbound_policy, registry::OutboundPolicy::RegistryOnly);
  EXPECT_THAT(changed_sections(none, some), ElementsAre("mesh"));
}

TEST(LoadTest, ReadsWhatRegistryOnlyDoes) {
  using registry::RegistryOnlyMode;
  using registry::RegistryOnlyRcode;
  EXPECT_EQ(Config().mesh.registry_only.mode, RegistryOnlyMode::Explain);
  const Config config =
      good("mesh: { registry_only: { mode: answer, rcode: refused, namespaces: [shop] } }");
  EXPECT_EQ(config.mesh.registry_only,
            (registry::RegistryOnlySettings{
                RegistryOnlyMode::Answer, RegistryOnlyRcode::Refused, {"shop"}}));
  EXPECT_EQ(good(to_json(config)), config);
  for (const char* const bad :
       {"mode: deny", "rcode: servfail", "namespaces: [Shop]", "modes: audit"})
    EXPECT_FALSE(
        parse_config(std::string("mesh: { registry_only: { ") + bad + " } }", "m.yaml").valid())
        << bad;
}

TEST(LoadTest, TakesTheConfigMapOfARevision) {
  for (const char* const name : {"istio-system/istio", "mesh/istio-1-30", "\"\""})
    good(std::string("mesh: { istio_config_map: ") + name + " }");
  for (const char* const name : {"istio", "istio-system/mesh", "/istio", "istio-system/istio-",
                                 "istio-system/Istio", "a/b/istio", "istio-system/istio-a.b"}) {
    const auto loaded =
        parse_config(std::string("mesh: { istio_config_map: ") + name + " }", "m.yaml");
    EXPECT_FALSE(loaded.valid()) << name;
  }
}

TEST(LoadTest, TakesTheSettingsOfNamesOfGateways) {
  using registry::Kind;
  const Config config = good(
      "mesh: { gateway_names: { kinds: [HTTPRoute, Service], domains: [Example.org.], "
      "services: { nginx: infra/proxy } } }");
  const auto& names = config.mesh.gateway_names;
  EXPECT_THAT(names.kinds, ElementsAre(Kind::HttpRoute, Kind::Service));
  EXPECT_THAT(names.domains, ElementsAre("example.org"));
  EXPECT_EQ(names.services, (registry::Labels{{"nginx", "infra/proxy"}}));
  EXPECT_THAT(registry::gateway_kinds_to_read(config.mesh),
              ElementsAre(Kind::HttpRoute, Kind::Service, Kind::Gateway));
  EXPECT_TRUE(registry::gateway_kinds_to_read(Config().mesh).empty());
  EXPECT_THAT(registry::gateway_kinds_to_read(good("mesh: { networks: gateways }").mesh),
              ElementsAre(Kind::Gateway));
  for (const char* const bad :
       {"kinds: [Pod]", "kinds: Ingress", "domains: [\"a..b\"]", "services: { a: b }",
        "services: { a: b/ }", "services: { a: B/c }", "services: { a: b/c/d }"})
    EXPECT_FALSE(
        parse_config(std::string("mesh: { gateway_names: { ") + bad + " } }", "m.yaml").valid())
        << bad;
}

TEST(LoadTest, ReadsBackOneAdminAddressOrAListOfThem) {
  for (const std::string_view listen : {R"("")", R"("unix:/run/a.sock")", R"(["unix:/run/a.sock"])",
                                        R"([])", R"(["unix:/run/a.sock", "127.0.0.1:1"])"}) {
    const Config config = good("admin: { listen: " + std::string(listen) + " }");
    EXPECT_EQ(good(to_json(config)), config) << listen;
  }
  // A reader of /config that knows a single value finds one.
  EXPECT_THAT(to_json(good("admin: { listen: ['unix:/a'] }")), HasSubstr(R"("listen": "unix:/a")"));
  EXPECT_THAT(to_json(good("admin: { listen: [] }")), HasSubstr(R"("listen": "")"));
}

TEST(LoadTest, TellsTheSettingsInForceFromTheConfiguration) {
  const Config config = good("mesh: { root_namespace: mesh-root }");
  registry::MeshConfig mesh_config;
  mesh_config.root_namespace = "other";
  mesh_config.default_service_export_to = {"."};
  set_outbound_policy(mesh_config.meta, registry::OutboundPolicy::RegistryOnly);
  const std::string json = to_json(config, registry::effective_settings(config.mesh, &mesh_config));
  EXPECT_TRUE(is_json_of(config, json)) << json;
  EXPECT_FALSE(is_json_of(Config(), json));
  EXPECT_FALSE(is_json_of(config, to_json(config)));
  rapidjson::Document document;
  document.Parse(json.c_str());
  ASSERT_FALSE(document.HasParseError()) << json;
  const auto& in_force = document["in_force"];
  EXPECT_STREQ(in_force["mesh.root_namespace"]["value"].GetString(), "mesh-root");
  EXPECT_STREQ(in_force["mesh.root_namespace"]["from"].GetString(), "the configuration");
  EXPECT_STREQ(in_force["mesh.default_export_to"]["value"][0].GetString(), ".");
  EXPECT_STREQ(in_force["mesh.default_export_to"]["from"].GetString(),
               "ConfigMap istio-system/istio");
  EXPECT_STREQ(in_force["mesh.service_entry_visibility"]["from"].GetString(), "default");
  const auto& policy = in_force["mesh.outbound_traffic_policy"];
  EXPECT_STREQ(policy["value"].GetString(), "REGISTRY_ONLY");
  EXPECT_STREQ(policy["from"].GetString(), "ConfigMap istio-system/istio");
}

TEST(LoadTest, ReadsMesh) {
  const Config c = good(R"(
mesh:
  cluster_domain: Corp.Local.
  root_namespace: mesh-root
  endpoint_answers: false
  auto_allocate: hash
  vip_cidr_v4: 198.18.0.0/15
  vip_namespace_quota: 100
  default_export_to: [".", shop]
  service_entry_visibility:
    defaultVisibility: NAMESPACE
    policies:
      - visibility: NONE
        matchingRules:
          - namespaceSelector: { matchLabels: { team: b, env: prod } }
          - namespaceSelector: { matchExpressions: [{ key: tier, operator: NotIn, values: [web] }] }
          - namespaceSelector: {}
  ttl: { vip: 60, negative: 0 }
  authoritative: true
  reverse_zones: [10.in-addr.arpa., 172.16.0.0/15]
  fallthrough: [svc.cluster.local, "."]
  namespaces: [shop, billing]
  pods: verified
  search_shortcut: off
  claims: strict
  clusters: local-only
  networks: gateways
)");
  EXPECT_EQ(c.mesh.cluster_domain, "corp.local");
  EXPECT_FALSE(c.mesh.endpoint_answers);
  EXPECT_EQ(c.mesh.auto_allocate, registry::AutoAllocate::Hash);
  EXPECT_EQ(c.mesh.vip_cidr_v4.to_string(), "198.18.0.0/15");
  EXPECT_EQ(c.mesh.vip_namespace_quota, 100U);
  EXPECT_THAT(c.mesh.default_export_to, ElementsAre(".", "shop"));
  using registry::LabelSelector;
  using Operator = registry::LabelRequirement::Operator;
  const auto& visibility = c.mesh.service_entry_visibility;
  EXPECT_EQ(visibility.default_visibility, registry::Visibility::Namespace);
  ASSERT_THAT(visibility.policies, SizeIs(1));
  EXPECT_EQ(visibility.policies[0].visibility, registry::Visibility::None);
  EXPECT_THAT(
      visibility.policies[0].namespace_selectors,
      ElementsAre(LabelSelector{{{"env", "prod"}, {"team", "b"}}, {}},
                  LabelSelector{{}, {{"tier", Operator::NotIn, {"web"}}}}, LabelSelector{}));
  EXPECT_EQ(c.mesh.ttl.vip, 60U);
  EXPECT_EQ(c.mesh.ttl.endpoint, 5U);
  EXPECT_EQ(c.mesh.ttl.negative, 0U);
  EXPECT_EQ(c.mesh.authoritative, registry::Authoritative::Yes);
  EXPECT_THAT(c.mesh.reverse_zones,
              ElementsAre("10.in-addr.arpa", "16.172.in-addr.arpa", "17.172.in-addr.arpa"));
  EXPECT_THAT(c.mesh.fallthrough, ElementsAre("svc.cluster.local", ""));
  EXPECT_EQ(c.mesh.pods, registry::PodNames::Verified);
  EXPECT_EQ(c.mesh.search_shortcut, registry::SearchShortcut::Off);
  EXPECT_EQ(c.mesh.claims, registry::Claims::Strict);
  EXPECT_EQ(c.mesh.clusters, registry::ClusterChoice::LocalOnly);
  EXPECT_EQ(c.mesh.networks, registry::NetworkChoice::Gateways);
}

TEST(LoadTest, ReadsTheClient) {
  const Config c = good(R"(
client:
  by_source_address: true
  unknown: refuse
  workload_entry_namespaces: ["*", vms]
  default:
    namespace: shop
    labels: { b: "2", a: "1" }
    network: vm-net
    cluster: west
    search: [Shop.svc.cluster.local., corp.example]
    ip_families: [IPv6]
)");
  EXPECT_TRUE(c.client.by_source_address);
  EXPECT_EQ(c.client.unknown, registry::UnknownClient::Refuse);
  EXPECT_THAT(c.client.workload_entry_namespaces, ElementsAre("*", "vms"));
  const ClientIdentityConfig& identity = c.client.default_identity;
  EXPECT_EQ(identity.ns, "shop");
  EXPECT_EQ(identity.labels, (registry::Labels{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(identity.network, "vm-net");
  EXPECT_EQ(identity.cluster, "west");
  EXPECT_THAT(identity.search, ElementsAre("shop.svc.cluster.local", "corp.example"));
  EXPECT_THAT(identity.ip_families, ElementsAre(IpFamily::IPv6));
}

TEST(LoadTest, TakesTheNamespaceFromTheNodeId) {
  const Config c = good(
      "client: { default: { node_id: 'sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local' } }");
  EXPECT_EQ(c.client.default_identity.ns, "shop");
  EXPECT_EQ(c.client.default_identity.node_id->id, "web-1.shop");
  EXPECT_EQ(good("client: {default: {node_id: 'sidecar~10.0.0.1~w.shop~', namespace: shop}}")
                .client.default_identity.ns,
            "shop");
  EXPECT_THAT(findings("client:\n  default:\n    namespace: default\n"
                       "    node_id: sidecar~10.0.0.1~w.shop~\n"),
              ElementsAre(AllOf(StartsWith("m.yaml:4: error: client.default.node_id: "),
                                HasSubstr("remove one of the two"))));
}

TEST(LoadTest, TakesTheFamiliesFromTheNodeIdUnlessTheyAreNamed) {
  const auto families = [](std::string_view keys) {
    return good("client: {default: {" + std::string(keys) + "}}")
        .client.default_identity.ip_families;
  };
  EXPECT_THAT(families("node_id: 'sidecar~10.60.1.6~web.shop~'"), ElementsAre(IpFamily::IPv4));
  EXPECT_THAT(families("node_id: 'sidecar~fd00::6,10.60.1.6~web.shop~'"),
              ElementsAre(IpFamily::IPv4, IpFamily::IPv6));
  EXPECT_THAT(families("node_id: 'sidecar~10.60.1.6~web.shop~', ip_families: [IPv6]"),
              ElementsAre(IpFamily::IPv6));
}

TEST(LoadTest, ReadsSources) {
  const Config c = good(R"(
sources:
  - files: { path: /etc/mesh, cluster: west, network: n1 }
  - kubernetes: { kubeconfig: /root/.kube/config, namespaces: [shop], node_name: node-1, endpoints: all }
  - kubernetes:
  - name_table: { path: ndsz.json }
)");
  ASSERT_THAT(c.sources, SizeIs(4));
  EXPECT_EQ(std::get<FilesSource>(c.sources[0]), (FilesSource{"/etc/mesh", "west", "n1"}));
  EXPECT_EQ(std::get<KubernetesSource>(c.sources[1]).node_name, "node-1");
  EXPECT_EQ(std::get<KubernetesSource>(c.sources[1]).endpoints, EndpointScope::All);
  EXPECT_EQ(KubernetesSource().endpoints, EndpointScope::Headless);
  EXPECT_EQ(std::get<KubernetesSource>(c.sources[2]), KubernetesSource());
  EXPECT_EQ(std::get<NameTableSource>(c.sources[3]).path, "ndsz.json");
}

TEST(LoadTest, ReadsUpstreamAndCache) {
  const Config c = good(R"(
upstream:
  servers: [10.0.0.53, "2001:db8::1", "tls://9.9.9.9#dns.quad9.net"]
  policy: round_robin
  zones: { Corp.Example.: [10.0.0.54], 10.0.0.0/8: ["10.0.0.55:5353"] }
  timeout: 500ms
  max_in_flight: 100
  case_randomization: false
  cookies: off
  tls: { ca_file: /etc/ca.pem }
cache: { size: 1GiB, min_ttl: 5s, max_ttl: 2h, negative_max_ttl: 1m, serve_stale: 0, prefetch: false }
state_dir: /var/lib/meshdns
)");
  ASSERT_THAT(c.upstream.servers, SizeIs(3));
  EXPECT_EQ(c.upstream.servers[2].tls_name, "dns.quad9.net");
  EXPECT_EQ(c.upstream.policy, UpstreamPolicy::RoundRobin);
  ASSERT_THAT(c.upstream.zones, SizeIs(2));
  EXPECT_EQ(c.upstream.zones.at("corp.example")[0].to_string(), "10.0.0.54:53");
  EXPECT_EQ(c.upstream.zones.at("10.in-addr.arpa")[0].to_string(), "10.0.0.55:5353");
  EXPECT_EQ(c.upstream.timeout, 500ms);
  EXPECT_EQ(c.upstream.max_in_flight, 100U);
  EXPECT_FALSE(c.upstream.case_randomization);
  EXPECT_EQ(c.upstream.cookies, UpstreamCookieMode::Off);
  EXPECT_EQ(c.upstream.tls_ca_file, "/etc/ca.pem");
  EXPECT_EQ(c.cache.size_bytes, 1U << 30);
  EXPECT_FALSE(c.cache.has_default_size);
  EXPECT_EQ(c.cache.min_ttl, 5s);
  EXPECT_EQ(c.cache.serve_stale, 0s);
  EXPECT_FALSE(c.cache.prefetch);
  EXPECT_EQ(c.state_dir, "/var/lib/meshdns");
}

// One error and its message.
struct Mistake {
  std::string_view text;
  std::string_view place;  // how the finding begins, after "m.yaml:"
  std::string_view message;
};

TEST(LoadTest, ErrorsNameLineKeyAndRemedy) {
  for (
      const Mistake& m : {
          Mistake{"server:\n  lisen: []\n", "2: error: server.lisen: ", "did you mean \"listen\"?"},
          {"sever: {}\n", "1: error: sever: ", "did you mean \"server\"?"},
          {"idle_timeout: 5s\n", "1: error: idle_timeout: ", "\"server.tcp.idle_timeout\""},
          {"cache: { zzzzzzzzzzzzzzzz: 1 }\n",
           "1: error: cache.zzzzzzzzzzzzzzzz: ", "valid keys are: size, min_ttl"},
          {"server:\n  workers: 1\n  workers: 2\n", "3: error: ", "given twice"},
          {"server: 5\n", "1: error: server: ", "expected a mapping, found a number"},
          {"[]\n", "1: error: ", "expected a mapping, found a list"},
          {"hello\n", "1: error: ", "expected a mapping, found a string"},
          {"server:\n  listen: 127.0.0.1:53\n", "2: error: server.listen: ",
           "expected a list, found a string; write [\"127.0.0.1:53\"]"},
          {"server:\n  listen: []\n", "2: error: server.listen: ", "is empty"},
          {"server:\n  listen:\n    - 127.0.0.1:53\n    - localhost:53\n",
           "4: error: server.listen[1]: ", "\"localhost\" is not an IP address"},
          {"server: { listen: [':53'] }\n", "1: error: server.listen[0]: ",
           "for all addresses write \"0.0.0.0:PORT\" and \"[::]:PORT\""},
          {"server: { listen: [53] }\n",
           "1: error: server.listen[0]: ", "a port alone is not enough: write \"127.0.0.1:53\""},
          {"upstream: { servers: [1.1.1.1@53] }\n",
           "1: error: upstream.servers[0]: ", "write \"1.1.1.1:53\""},
          {"upstream: { servers: ['2001:db8::1@853'] }\n",
           "1: error: upstream.servers[0]: ", "write \"[2001:db8::1]:853\""},
          {"upstream: { servers: [/etc/resolv.conf] }\n", "1: error: upstream.servers[0]: ",
           "without upstream.servers, meshdns reads /etc/resolv.conf"},
          {"upstream: { servers: [.] }\n",
           "1: error: upstream.servers[0]: ", "upstream.servers has all names that no zone has"},
          {"upstream: { servers: ['fe80::1'] }\n", "1: error: upstream.servers[0]: ",
           "is link-local; write the interface, too, as in \"[fe80::1%eth0]:53\""},
          {"upstream: { servers: ['tls://[febf::1]#dns.example'] }\n",
           "1: error: upstream.servers[0]: ", "is link-local"},
          {"upstream: { servers: [224.0.0.251] }\n",
           "1: error: upstream.servers[0]: ", "is not an address to send to"},
          {"upstream: { servers: ['ff02::fb%lo'] }\n",
           "1: error: upstream.servers[0]: ", "is not an address to send to"},
          {"upstream: { servers: [255.255.255.255] }\n",
           "1: error: upstream.servers[0]: ", "is not an address to send to"},
          {"upstream: { zones: { '*.corp.example': [10.0.0.53] } }\n",
           "1: error: upstream.zones.*.corp.example: ",
           "write \"corp.example\", which covers all names below it"},
          {"upstream: { zones: { .corp.example: [10.0.0.53] } }\n",
           "1: error: upstream.zones..corp.example: ", "write \"corp.example\", which"},
          {"upstream: { zones: { b\xc3\xbc"
           "cher.example: [10.0.0.53] } }\n",
           "1: error: upstream.zones.b\\195\\188cher.example: ", "write its ASCII form (xn--...)"},
          {"overrides: { a.example: NXDOMAIN }\n",
           "1: error: overrides.a.example: ", "is not an override; write nxdomain"},
          {"overrides: { a.example: 192.0.2.1 }\n",
           "1: error: overrides.a.example: ", "write [\"192.0.2.1\"]"},
          {"overrides: { a.example: deny }\n",
           "1: error: overrides.a.example: ", "write nxdomain, refused or a list of addresses"},
          {"mesh: { cluster_domain: svc.cluster.local }\n",
           "1: warning: mesh.cluster_domain: ", "write \"cluster.local\""},
          {"server: { listen: ['10.0.0.1:53'] }\nupstream: { servers: [10.0.0.1] }\n",
           "2: warning: upstream.servers: ", "meshdns would ask itself"},
          {"server: { listen: ['0.0.0.0:53'] }\nupstream: { zones: { a.example: [127.0.0.53] } }\n",
           "2: warning: upstream.zones: ", "meshdns would ask itself"},
          {"server:\n  listen: ['127.0.0.1:53', '127.0.0.1:53']\n",
           "2: error: server.listen: ", "listed twice"},
          {"server:\n  workers: -1\n", "2: error: server.workers: ", "whole number from 0 to 1024"},
          {"server:\n  workers: 1025\n",
           "2: error: server.workers: ", "whole number from 0 to 1024"},
          {"server:\n  workers: \"4\"\n", "2: error: server.workers: ", "without quotes"},
          {"server:\n  workers: four\n", "2: error: server.workers: ", "whole number"},
          {"server:\n  workers:\n", "2: error: server.workers: ", "remove the key"},
          {"server: { allow: [10.0.0.0/33] }\n", "1: error: server.allow[0]: ", "not a prefix"},
          {"server: { allow: [] }\n", "1: error: server.allow: ", "for all clients"},
          {"server: { chaos: no }\n",
           "1: error: server.chaos: ", "\"no\" is not one of: loopback, allowed, off"},
          {"server: { tcp: { idle_timeout: 10 } }\n",
           "1: error: server.tcp.idle_timeout: ", "write 10s"},
          {"server: { tcp: { idle_timeout: 2h } }\n",
           "1: error: server.tcp.idle_timeout: ", "not from 100ms to 1h"},
          {"admin: { listen: 15054 }\n", "1: error: admin.listen: ", "not an IP address"},
          {"admin: { listen: 'unix:admin.sock' }\n",
           "1: error: admin.listen: ", "not an absolute path"},
          {"admin: { listen: 'unix:/run/' }\n", "1: error: admin.listen: ", "not an absolute"},
          {"admin: { listen: ['127.0.0.1:1', 'unix:a'] }\n",
           "1: error: admin.listen[1]: ", "not an absolute path"},
          {"admin: { listen: ['unix:/a', 'unix:/a'] }\n",
           "1: error: admin.listen: ", "\"unix:/a\" is listed twice"},
          {"admin: { listen: ['unix:/a/none/../b', 'unix:/a/b'] }\n",
           "1: error: admin.listen: ", "cannot be bound beside \"unix:/a/none/../b\"; remove one"},
          {"admin:\n  listen: 'unix:/a'\n  metrics_listen: 'unix:///a'\n",
           "3: error: admin.metrics_listen: ",
           "cannot be bound beside \"unix:/a\" of admin.listen"},
          {"admin: { metrics_listen: '0.0.0.0:15054' }\n", "1: error: admin.metrics_listen: ",
           "beside \"127.0.0.1:15054\" of admin.listen; choose another"},
          {"server: { listen: ['0.0.0.0:15054'] }\n",
           "1: error: admin.listen: ", "beside \"0.0.0.0:15054\" of server.listen"},
          {"server: { listen: ['127.0.0.1:53'] }\nadmin: { listen: '[::]:53' }\n",
           "2: error: admin.listen: ", "beside \"127.0.0.1:53\" of server.listen"},
          {"server: { handover: '/a' }\nadmin: { listen: 'unix:/a' }\n",
           "2: error: admin.listen: ", "beside \"unix:/a\" of server.handover"},
          {"admin: { listen: ['[fe80::1%a]:1', '[fe80::1]:1'] }\n",
           "1: error: admin.listen: ", "cannot be bound beside"},
          {"admin: { listen: ['unix:/a', ''] }\n", "1: error: admin.listen[1]: ", "not an IP"},
          {"admin: { listen: ['unix:/1', 'unix:/2', 'unix:/3', 'unix:/4', 'unix:/5', 'unix:/6', "
           "'unix:/7', 'unix:/8', 'unix:/9'] }\n",
           "1: error: admin.listen: ", "more than 8 addresses"},
          {"log: { level: INFO }\n", "1: error: log.level: ", "not one of: trace, debug, info"},
          {"log: { queries: { sample: 2 } }\n", "1: error: log.queries.sample: ", "from 0 to 1"},
          {"mesh: { endpoint_answers: yes }\n",
           "1: error: mesh.endpoint_answers: ", "write true or false"},
          {"mesh: { endpoint_answers: 'true' }\n",
           "1: error: mesh.endpoint_answers: ", "without quotes"},
          {"mesh: { endpoint_answers: 1 }\n", "1: error: mesh.endpoint_answers: ", "not a boolean"},
          {"mesh: { endpoint_answers: [] }\n", "1: error: mesh.endpoint_answers: ", "found a list"},
          {"mesh: { cluster_domain: '' }\n",
           "1: error: mesh.cluster_domain: ", "not a domain name"},
          {"mesh: { vip_cidr_v4: 'fc00::/48' }\n", "1: error: mesh.vip_cidr_v4: ", "is not IPv4"},
          {"mesh: { vip_cidr_v4: 240.0.0.0/31 }\n", "1: error: mesh.vip_cidr_v4: ", "4 to 30 bits"},
          {"mesh: { vip_cidr_v4: 10.9.200.200/16 }\n",
           "1: error: mesh.vip_cidr_v4: ", "has host bits set; write \"10.9.0.0/16\""},
          {"mesh: { vip_cidr_v6: 'fd00:1::100/112' }\n",
           "1: error: mesh.vip_cidr_v6: ", "has host bits set; write \"fd00:1::/112\""},
          {"mesh: { vip_cidr_v4: 127.0.0.0/8 }\n", "1: error: mesh.vip_cidr_v4: ", "loopback"},
          {"mesh: { vip_cidr_v4: 224.0.0.0/4 }\n", "1: error: mesh.vip_cidr_v4: ", "multicast"},
          {"mesh: { vip_cidr_v6: 'ff02::/64' }\n", "1: error: mesh.vip_cidr_v6: ", "multicast"},
          {"mesh: { vip_namespace_quota: 16777217 }\n",
           "1: error: mesh.vip_namespace_quota: ", "16777216"},
          {"client: { workload_entry_namespaces: [Shop] }\n",
           "1: error: client.workload_entry_namespaces[0]: ",
           "neither \"*\" nor the name of a namespace"},
          {"mesh: { default_export_to: [] }\n", "1: error: mesh.default_export_to: ", "for none"},
          {"mesh: { default_export_to: ['~', a] }\n",
           "1: error: mesh.default_export_to: ", "must be the only value"},
          {"mesh: { ttl: { vip: 30s } }\n", "1: error: mesh.ttl.vip: ", "whole number"},
          {"mesh: { reverse_zones: ['.'] }\n", "1: error: mesh.reverse_zones[0]: ", "root"},
          {"mesh: { service_entry_visibility: { default_visibility: NONE } }\n",
           "1: error: mesh.service_entry_visibility.default_visibility: ", "\"defaultVisibility\""},
          {"client: { default: { node_id: sidecar~1.2.3.4~x~ } }\n",
           "1: error: client.default.node_id: ", "has no namespace"},
          {"client: { default: { ip_families: [IPv4, IPv4] } }\n",
           "1: error: client.default.ip_families: ", "twice"},
          {"client: { default: { namespace: Shop } }\n",
           "1: error: client.default.namespace: ", "not the name of a namespace"},
          {"sources:\n  - file: { path: x }\n",
           "2: error: sources[0].file: ", "did you mean \"files\"?"},
          {"sources:\n  - files: {}\n", "2: error: sources[0].files.path: ", "is missing"},
          {"sources:\n  - files: conf\n", "2: error: sources[0].files: ", "expected a mapping"},
          {"sources:\n  - conf\n", "2: error: sources[0]: ", "mapping of one key"},
          {"sources:\n  - { files: {path: a}, name_table: {path: b} }\n",
           "2: error: sources[0]: ", "mapping of one key"},
          {"sources: { files: { path: a } }\n", "1: error: sources: ", "expected a list"},
          {"upstream: { servers: [dns] }\n",
           "1: error: upstream.servers[0]: ", "not an IP address"},
          {"upstream: { zones: { corp.example: [] } }\n",
           "1: error: upstream.zones.corp.example: ", "is empty"},
          {"upstream: { zones: { '.': [10.0.0.1] } }\n",
           "1: error: upstream.zones..: ", "upstream.servers"},
          {"upstream:\n  zones:\n    a.example: [10.0.0.1]\n    A.Example.: [10.0.0.2]\n",
           "4: error: upstream.zones.A.Example.: ", "listed twice"},
          {"cache: { size: 64MB }\n", "1: error: cache.size: ", "write 64MiB"},
          {"cache: { max_ttl: 1500ms }\n", "1: error: cache.max_ttl: ", "whole seconds"},
          {"cache:\n  max_ttl: 1s\n  min_ttl: 2s\n",
           "3: error: cache.min_ttl: ", "more than max_ttl"},
          {"mesh: {service_entry_visibility: {policies: [{matchingRules: [{namespaceSelector: "
           "{matchExpressions: [{key: a, operator: In}]}}]}]}}\n",
           "1: error: mesh.service_entry_visibility.policies[0].matchingRules[0].namespaceSelector."
           "matchExpressions[0].values: ",
           "at least one value"},
          {"mesh: {service_entry_visibility: {policies: [{matchingRules: [{namespaceSelector: "
           "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}]}}\n",
           "1: error: mesh.service_entry_visibility.policies[0].matchingRules[0].namespaceSelector."
           "matchExpressions[0].values: ",
           "take no values"},
          {"mesh: {service_entry_visibility: {policies: [{matchingRules: [{namespaceSelector: "
           "{matchExpressions: [{key: a}]}}]}]}}\n",
           "1: error: mesh.service_entry_visibility.policies[0].matchingRules[0].namespaceSelector."
           "matchExpressions[0].operator: ",
           "is missing"},
          {"mesh: {service_entry_visibility: {policies: [{matchingRules: [{namespaceSelector: "
           "{matchExpressions: [{operator: Exists}]}}]}]}}\n",
           "1: error: mesh.service_entry_visibility.policies[0].matchingRules[0].namespaceSelector."
           "matchExpressions[0].key: ",
           "is missing"},
          {"mesh: {service_entry_visibility: {policies: [{matchingRules: [{namespaceSelector: "
           "{matchExpressions: [{key: a, operator: Maybe}]}}]}]}}\n",
           "1: error: mesh.service_entry_visibility.policies[0].matchingRules[0].namespaceSelector."
           "matchExpressions[0].operator: ",
           "is not one of"},
          {"state_dir: [a]\n", "1: error: state_dir: ", "expected text, found a list"},
          {"server: {}\n---\nserver: {}\n", "3: error: ", "second document"},
          {"server:\n  workers: }\n", "2: error: ", ""},
          {"a: b: c\n", "1: error: ", ""},
      })
    EXPECT_THAT(findings(m.text), ElementsAre(AllOf(StartsWith("m.yaml:" + std::string(m.place)),
                                                    HasSubstr(std::string(m.message)))))
        << m.text;
}

TEST(LoadTest, ReadsARateLimit) {
  const RateLimitConfig limit =
      good("server: { rate_limit: { responses_per_second: 100, slip: 3, ipv6_prefix: 56 } }")
          .server.rate_limit;
  EXPECT_EQ(limit.responses_per_second, 100U);
  EXPECT_EQ(limit.slip, 3U);
  EXPECT_EQ(limit.ipv4_prefix, 32U);
  EXPECT_EQ(limit.ipv6_prefix, 56U);
  EXPECT_THAT(findings("server: { rate_limit: { ipv4_prefix: 33 } }"),
              ElementsAre(HasSubstr("server.rate_limit.ipv4_prefix")));
}

TEST(LoadTest, ReadsTheModesOfCookies) {
  EXPECT_EQ(good("server: {}").server.cookies, CookiesConfig{});
  const CookiesConfig cookies =
      good("server: { cookies: { mode: on, secret_file: /etc/meshdns/cookies } }").server.cookies;
  EXPECT_EQ(cookies.mode, CookieMode::On);
  EXPECT_EQ(cookies.secret_file, "/etc/meshdns/cookies");
  EXPECT_EQ(good("server: { cookies: { mode: off } }").server.cookies.mode, CookieMode::Off);
  EXPECT_THAT(findings("server: { cookies: { mode: always } }"),
              ElementsAre(HasSubstr("server.cookies.mode")));
}

TEST(LoadTest, ReportsEverythingInTheOrderOfTheText) {
  EXPECT_THAT(
      findings("cache: { size: x }\n"
               "bogus: 1\n"
               "server:\n"
               "  workers: x\n"
               "  listen: [x, y]\n"),
      ElementsAre(StartsWith("m.yaml:1: error: cache.size"), StartsWith("m.yaml:2: error: bogus"),
                  StartsWith("m.yaml:4: error: server.workers"),
                  StartsWith("m.yaml:5: error: server.listen[0]"),
                  StartsWith("m.yaml:5: error: server.listen[1]")));
}

TEST(LoadTest, WarnsAboutPersistentAddressesWithoutStateDir) {
  const LoadedConfig loaded = parse_config("mesh:\n  auto_allocate: persistent\n", "m.yaml");
  EXPECT_TRUE(loaded.valid());
  ASSERT_THAT(loaded.findings, SizeIs(1));
  EXPECT_THAT(loaded.findings[0].to_string(),
              StartsWith("m.yaml:2: warning: mesh.auto_allocate: "));
  EXPECT_THAT(findings("mesh: {auto_allocate: persistent}\nstate_dir: /var/lib/meshdns\n"),
              IsEmpty());
}

TEST(LoadTest, FindingsAreShortLinesOfPrintableText) {
  const std::string odd = R"("\n\e[2J\0\u0085ä)" + std::string(900, 'x') + '"';
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "{" + odd + ": ";
  deep += "1" + std::string(20, '}');
  for (const std::string& text :
       {odd + ": 1",
        "server: {" + odd + ": 1}",
        "server: {workers: " + odd + "}",
        "server: {listen: " + odd + "}",
        "server: {listen: [" + odd + "]}",
        "cache: {size: " + odd + "}",
        "cache: {stale_ttl: " + odd + "}",
        "log: {level: " + odd + "}",
        "log: {dnstap: {socket: " + odd + "}}",
        "admin: {listen: " + odd + "}",
        "mesh: {cluster_domain: " + odd + "}",
        "mesh: {vip_cidr_v4: " + odd + "}",
        "upstream: {servers: [" + odd + "]}",
        "upstream: {zones: {" + odd + ": []}}",
        "overrides: {" + odd + ": nxdomain}",
        "overrides: {a.example.org: [" + odd + "]}",
        "client: {unknown: " + odd + "}",
        "sources: [{" + odd + ": {}}]",
        "sources: [{files: {" + odd + ": 1}}]",
        "log: {queries: {sample: " + odd + "}}",
        "server: {allow: [" + odd + "]}",
        "server: &" + std::string(9'000, 'a') + " {}\nlog: *" + std::string(9'000, 'b') + "\n",
        "server: !" + std::string(9'000, 'a') + " {}\n",
        std::string("server: {").append(odd).append(": 1, ").append(odd).append(": 2}"),
        "mesh: " + deep}) {
    const auto lines = findings(text);
    EXPECT_THAT(lines, Not(IsEmpty())) << text.substr(0, 50);
    for (const std::string& line : lines) {
      EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
      EXPECT_LT(line.size(), 1'500U) << line;
    }
  }
}

TEST(LoadTest, CountsFindingsBeyondTheLimit) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += "bogus" + std::to_string(i) + ": 1\n";
  const LoadedConfig loaded = parse_config(text, "m.yaml");
  EXPECT_FALSE(loaded.valid());
  ASSERT_THAT(loaded.findings, SizeIs(101));
  EXPECT_THAT(loaded.findings[0].to_string(), StartsWith("m.yaml:1: error: bogus0: unknown key"));
  EXPECT_EQ(loaded.findings[100].to_string(), "m.yaml: error: and 900 more findings");
}

// Nesting, aliases and sizes without end stay within the bounds of the reader.
TEST(LoadTest, EndsOnHostileText) {
  const std::string deep(100'000, '[');
  std::string wide = "upstream:\n  zones:\n";
  for (int i = 0; i < 50'000; ++i) wide += "    z" + std::to_string(i) + ": []\n";
  for (const std::string& text :
       {deep, wide, std::string("\0\0\0", 3), std::string("\xff\xfe"), std::string("\x80\x80: 1"),
        std::string("a: &a [*a, *a]"), std::string("{{{{")})
    EXPECT_THAT(findings(text), Not(IsEmpty()));
}

TEST(LoadTest, ReadsBackThePrintedForm) {
  for (const std::string_view text : {
           "",
           "admin: {listen: ''}",
           "client: {default: {node_id: 'sidecar~10.0.0.1~w.shop~'}}",
           "mesh: {service_entry_visibility: {policies: [{visibility: NONE, matchingRules: "
           "[{namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: "
           "Exists}"
           "]}}]}]}, fallthrough: ['.'], authoritative: "
           "false, "
           "reverse_zones: [10.96.0.0/12]}",
           "sources: [{files: {path: \"a \\\"b\\\" \\\\ \\u00e4\"}}, {kubernetes: {}}, "
           "{name_table: {path: x}}, {istiod: {address: i, ca_file: c, token_file: t, node: "
           "{address: '::1', name: n, namespace: s, labels: {a: b}}}}]",
           "upstream: {zones: {10.0.0.0/9: ['tls://[2001:db8::1]:53#x.example']}, timeout: 1500ms}",
           "log: {queries: {class: all, sample: 0.0000001}}",
           "cache: {size: 1000, serve_stale: 61s}",
       }) {
    const Config config = good(text);
    EXPECT_EQ(good(to_json(config)), config) << to_json(config);
  }
}

constexpr std::string_view kGoodIstiod =
    "address: istiod.example:15012, ca_file: ca, token_file: t, "
    "node: {address: 10.0.0.5, name: vm, namespace: shop}";

TEST(LoadTest, ReadsAnIstiodSource) {
  const auto source = [](std::string_view keys) {
    return std::get<IstiodSource>(
        good("sources: [{istiod: {" + std::string(keys) + "}}]").sources[0]);
  };
  const IstiodSource one = source(kGoodIstiod);
  EXPECT_EQ(one.addresses, std::vector<std::string>{"istiod.example:15012"});
  EXPECT_EQ(one.transport, IstiodTransport::Delta);
  EXPECT_EQ(one.node.addresses, std::vector{*IpAddress::parse("10.0.0.5")});
  const IstiodSource other = source(
      "address: [istiod, 192.0.2.1, '[2001:db8::1]:443'], ca_file: ca, cert_file: c, key_file: k, "
      "transport: state_of_the_world, api: names, server_name: s, "
      "node: {type: router, address: [10.0.0.5, 'fd00::5'], name: vm, namespace: shop, cluster: c, "
      "network: n, revision: r, labels: {a: b}, metadata: {DNS_AUTO_ALLOCATE: 'true'}}");
  EXPECT_EQ(other.addresses,
            (std::vector<std::string>{"istiod:15012", "192.0.2.1:15012", "[2001:db8::1]:443"}));
  EXPECT_EQ(other.node.type, IstiodNodeType::Router);
  EXPECT_EQ(other.node.addresses.size(), 2U);
  EXPECT_EQ(other.node.metadata, (registry::Labels{{"DNS_AUTO_ALLOCATE", "true"}}));
}

TEST(LoadTest, ErrorsOfAnIstiodSourceNameTheRemedy) {
  struct Case {
    std::string_view replaced, by, finding;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"address: istiod.example:15012, ", "", "istiod.address: is missing; write it as in"},
           {"istiod.example:15012", "istiod:0",
            "istiod.address: \"istiod:0\" is not a host with a port"},
           {"istiod.example:15012", "'https://istiod'", "is not a host with a port"},
           {"istiod.example:15012", "[]", "istiod.address: is empty"},
           {"ca_file: ca, ", "", "istiod.ca_file: is missing; name the file"},
           {"token_file: t, ", "", "istiod.token_file: is missing; name a file with a token, or"},
           {"token_file: t", "token_file: t, cert_file: c, key_file: k",
            "cannot be used together with cert_file"},
           {"token_file: t", "cert_file: c", "istiod.key_file: is missing"},
           {"token_file: t", "key_file: k", "istiod.cert_file: is missing"},
           {"ca_file: ca", "ca_file: ca, api: addresses",
            "istiod.api: \"addresses\" is not one of: names, workloads"},
           {"ca_file: ca", "ca_file: ca, api: workloads, transport: state_of_the_world",
            "istiod.transport: must be delta"},
           {"ca_file: ca", "ca_file: ca, transport: sotw",
            "is not one of: delta, state_of_the_world"},
           {"address: 10.0.0.5", "address: vm", "node.address: \"vm\" is not an IP address"},
           {"address: 10.0.0.5, ", "", "node.address: is missing; write the IP address"},
           {"name: vm, ", "", "node.name: is missing"},
           {"name: vm", "name: 'a~b'", "node.name: \"a~b\" is not the name of a workload"},
           {", namespace: shop", "", "node.namespace: is missing"},
           {", node: {address: 10.0.0.5, name: vm, namespace: shop}", "",
            "istiod.node: is missing"},
       }) {
    std::string keys(kGoodIstiod);
    keys.replace(keys.find(c.replaced), c.replaced.size(), c.by);
    EXPECT_THAT(findings("sources: [{istiod: {" + keys + "}}]"),
                Contains(HasSubstr(std::string(c.finding))))
        << keys;
  }
}

TEST(LoadTest, NamesTheSectionsThatAChangeTouches) {
  const Config before = good("");
  EXPECT_THAT(changed_sections(before, before), IsEmpty());
  EXPECT_THAT(
      changed_sections(before, good("log: {level: warn}\ncache: {size: 0}\nstate_dir: /x\n"
                                    "mesh: {ttl: {vip: 1}}\nsources: [{files: {path: x}}]")),
      ElementsAre("log", "mesh", "sources", "cache", "state_dir"));
}

TEST(LoadTest, ErrorsNameTheFileThatCannotBeRead) {
  EXPECT_EQ(load_config({"/nonexistent/m.yaml"}).error().message,
            "/nonexistent/m.yaml: No such file or directory");
  EXPECT_THAT(load_config({"/"}).error().message, HasSubstr("directory"));
  const std::string path = test_file();
  std::ofstream(path) << std::string((1U << 20) + 1, '#');
  EXPECT_THAT(load_config({path}).error().message, HasSubstr("larger than 1 MiB"));
}

// A file that was cut off must not turn a node into a forwarder.
TEST(LoadTest, RefusesAnEmptyFile) {
  const std::string path = test_file();
  for (const char* text : {"", "\n", " \n\t\r\n", "\xef\xbb\xbf"}) {
    std::ofstream(path) << text;
    const auto loaded = load_config({path});
    ASSERT_TRUE(loaded);
    EXPECT_FALSE(loaded->valid()) << text;
    EXPECT_EQ(loaded->findings.at(loaded->findings.size() - 1).to_string(),
              path + ": error: is empty; for a configuration with all defaults, write a comment");
  }
  for (const char* text : {"# all defaults\n", "{}", "---\n"}) {
    std::ofstream(path) << text;
    const auto loaded = load_config({path});
    EXPECT_TRUE(loaded && loaded->valid() && loaded->config == Config()) << text;
  }
}

TEST(LoadTest, KnowsTheLinesOfTheKeysThatATextHas) {
  const LoadedConfig loaded = parse_config(
      "server:\n"
      "  listen:\n"
      "    - 127.0.0.1:53\n"
      "    - \"[::1]:53\"\n"
      "  cookies: { secret_file: /x }\n"
      "bogus: 1\n"
      "sources:\n"
      "  - files: { path: a }\n"
      "  - kubernetes:\n"
      "      kubeconfig: b\n",
      "m.yaml");
  const auto line = [&](const char* key) {
    const auto found = loaded.lines.find(key);
    return found == loaded.lines.end() ? 0U : found->second;
  };
  EXPECT_EQ(line("server"), 1U);
  EXPECT_EQ(line("server.listen[1]"), 4U);
  EXPECT_EQ(line("server.cookies.secret_file"), 5U);
  EXPECT_EQ(line("sources[0].files.path"), 8U);
  EXPECT_EQ(line("sources[1].kubernetes.kubeconfig"), 10U);
  EXPECT_EQ(line("bogus"), 0U);
}

TEST(LoadTest, ReadsAFile) {
  const std::string path = test_file();
  std::ofstream(path) << "cache: { size: 1MiB }\nbogus: 1\n";
  const auto loaded = load_config({path});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.cache.size_bytes, 1U << 20);
  ASSERT_THAT(loaded->findings, SizeIs(1));
  EXPECT_THAT(loaded->findings[0].to_string(), StartsWith(path + ":2: error: bogus: unknown key"));
}

// Found by fuzzing, or where a fuzzer begins: nothing of it may do harm, and what is valid reads
// back.
TEST(LoadTest, ReplaysTheFuzzersCorpus) {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(MESHDNS_SOURCE_DIR "/tests/fuzz/corpus/config")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const LoadedConfig loaded = parse_config(text, "m.yaml");
    if (loaded.valid()) {
      EXPECT_EQ(good(to_json(loaded.config)), loaded.config) << entry.path();
    }
    ++count;
  }
  EXPECT_GT(count, 0U);
}

}  // namespace
}  // namespace meshdns::dnsd
