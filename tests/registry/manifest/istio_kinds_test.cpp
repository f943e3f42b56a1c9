// SPDX-License-Identifier: Apache-2.0
// WorkloadEntry and Sidecar: each rule beside its nearest accepted neighbour.
#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

// The spec's first line is line 5.
std::string workload(std::string_view spec) {
  return "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
         "metadata: {name: vm, namespace: shop}\nspec:\n" +
         indent(spec, 2);
}
std::string sidecar(std::string_view spec) {
  return "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
         "metadata: {name: s, namespace: shop}\nspec:\n" +
         indent(spec, 2);
}

class WorkloadEntryRules : public testing::TestWithParam<SpecCase> {};
TEST_P(WorkloadEntryRules, GiveTheirFindings) {
  expect_case(GetParam(), workload(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(All, WorkloadEntryRules, testing::ValuesIn(rows(R"(
IPv4 | address: 10.0.0.1\n |
IPv6 | address: "2001:db8::1"\n |
name | address: vm.example.org\n |
neither address nor network | labels: {a: b}\n | 4 error spec.address
network only | network: east\n | 4 warning spec.address
address with port | address: 10.0.0.1:80\n | 5 error spec.address
wildcard | address: "*.example.org"\n | 5 error spec.address
socket | address: unix:///a\n |
socket with ports | address: unix:///a\nports: {http: 80}\n | 6 error spec.ports
relative socket | address: unix://a\n | 5 error spec.address
any port name | address: 10.0.0.1\nports: {anything: 80}\n |
bad port name | address: 10.0.0.1\nports: {a_b: 80}\n | 6 error spec.ports.a_b
bad port number | address: 10.0.0.1\nports:\n  http: 65536\n | 7 error spec.ports.http
ports as a list | address: 10.0.0.1\nports: [80]\n | 6 error spec.ports
bad label key | address: 10.0.0.1\nlabels: {-a: b}\n | 6 error spec.labels.-a
bad label value | address: 10.0.0.1\nlabels: {a: -b}\n | 6 error spec.labels.a
snake case | address: 10.0.0.1\nservice_account: sa\n |
unknown field | address: 10.0.0.1\nlocalty: a\n | 6 warning spec.localty | "locality"
)")),
                         case_name);

TEST(WorkloadEntryTest, MissingSpecIsRefused) {
  expect_case({"", "", {"1 error spec"}},
              "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: vm}\n");
}

TEST(WorkloadEntryTest, HealthIsTheConditionWhenChecksAreOn) {
  const auto healthy = [](std::string_view annotation, std::string_view status) {
    const std::string text =
        "apiVersion: networking.istio.io/v1alpha3\nkind: WorkloadEntry\n"
        "metadata:\n  name: vm\n  annotations:\n    " +
        std::string(annotation) + "\nspec: {address: VM.example.org.}\n" + std::string(status);
    const auto entry = only<WorkloadEntry>(read(text));
    EXPECT_EQ(entry.spec.address, "vm.example.org");
    return entry.healthy;
  };
  const std::string on = "proxy.istio.io/health-checks-enabled: \"true\"";
  EXPECT_TRUE(healthy("example.org/a: b", ""));
  EXPECT_TRUE(healthy("proxy.istio.io/health-checks-enabled: \"false\"", ""));
  EXPECT_FALSE(healthy(on, ""));
  EXPECT_FALSE(healthy(on, "status: {conditions: [{type: Healthy, status: \"False\"}]}\n"));
  EXPECT_FALSE(healthy(on, "status: {conditions: [{type: Other, status: \"True\"}]}\n"));
  EXPECT_TRUE(healthy(on, "status: {conditions: [{type: Healthy, status: \"True\"}]}\n"));
  EXPECT_TRUE(healthy("a: b", "status: {conditions: [{type: Healthy, status: \"False\"}]}\n"));
}

class SidecarRules : public testing::TestWithParam<SpecCase> {};
TEST_P(SidecarRules, GiveTheirFindings) { expect_case(GetParam(), sidecar(GetParam().text)); }

INSTANTIATE_TEST_SUITE_P(Spec, SidecarRules, testing::ValuesIn(rows(R"(
egress | egress: [{hosts: ["./*"]}]\n |
nothing set | workloadSelector: {labels: {a: b}}\n | 4 error spec
empty lists | egress: []\ningress: []\n | 4 error spec
only a policy | outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n |
only a pool | inboundConnectionPool: {tcp: {maxConnections: 1}}\n |
only ingress | ingress: [{port: {number: 80, protocol: HTTP}, defaultEndpoint: "127.0.0.1:1"}]\n |
selector without labels | egress: [{hosts: ["./*"]}]\nworkloadSelector: {}\n | 6 warning spec.workloadSelector
selector with a wildcard | egress: [{hosts: ["./*"]}]\nworkloadSelector: {labels: {a: "*"}}\n | 6 error spec.workloadSelector.labels.a
selector with an empty key | egress: [{hosts: ["./*"]}]\nworkloadSelector: {labels: {"": a}}\n | 6 error spec.workloadSelector.labels.
unknown mode | outboundTrafficPolicy: {mode: ANY}\n | 5 error spec.outboundTrafficPolicy.mode
mode of the mesh only | outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}\n | 5 error spec.outboundTrafficPolicy.mode
egress proxy | outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: a.b, port: {number: 1}}}\n |
egress proxy without ALLOW_ANY | outboundTrafficPolicy: {egressProxy: {host: a.b, port: {number: 1}}}\n | 5 error spec.outboundTrafficPolicy.egressProxy
egress proxy without port | outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: a.b}}\n | 5 error spec.outboundTrafficPolicy.egressProxy.port
egress proxy with a bad host | outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: "*.b", port: {number: 1}}}\n | 5 error spec.outboundTrafficPolicy.egressProxy.host
egress proxy with a bad port | outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: a.b, port: {number: 0}}}\n | 5 error spec.outboundTrafficPolicy.egressProxy.port.number
unknown field | egress: [{hosts: ["./*"]}]\negres: []\n | 6 warning spec.egres
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Listeners, SidecarRules, testing::ValuesIn(rows(R"(
two ports and the rest | egress:\n- {port: {number: 80, name: http, protocol: HTTP}, hosts: ["./*"]}\n- {port: {number: 81, protocol: HTTP}, hosts: ["./*"]}\n- {hosts: ["./*"]}\n |
null | egress:\n- {hosts: ["./*"]}\n-\n | 6 error spec.egress[0].port; 7 error spec.egress[1]
no hosts | egress:\n- port: {number: 80, protocol: HTTP}\n | 6 error spec.egress[0].hosts
empty hosts | egress:\n- hosts: []\n | 6 error spec.egress[0].hosts
two without port | egress:\n- hosts: ["./*"]\n- hosts: ["./*"]\n | 6 error spec.egress[0].port
portless first | egress:\n- hosts: ["./*"]\n- {port: {number: 80, protocol: HTTP}, hosts: ["./*"]}\n | 6 error spec.egress[0].port
the same port twice | egress:\n- {port: {number: 80, protocol: HTTP}, hosts: ["./*"]}\n- {port: {number: 80, protocol: HTTP}, hosts: ["./*"]}\n | 7 error spec.egress[1].port.number
unknown protocol | egress: [{port: {number: 80, protocol: HTPP}, hosts: ["./*"]}]\n | 5 error spec.egress[0].port.protocol
port too large | egress: [{port: {number: 65536, protocol: HTTP}, hosts: ["./*"]}]\n | 5 error spec.egress[0].port.number
bad port name | egress: [{port: {number: 80, name: a_b, protocol: HTTP}, hosts: ["./*"]}]\n | 5 error spec.egress[0].port.name
target port | egress: [{port: {number: 80, targetPort: 1, protocol: HTTP}, hosts: ["./*"]}]\n | 5 error spec.egress[0].port.targetPort
socket | egress: [{port: {number: 0, protocol: HTTP}, bind: "unix:///a", hosts: ["./*"]}]\n |
port 0 without socket | egress: [{port: {number: 0, protocol: HTTP}, hosts: ["./*"]}]\n | 5 error spec.egress[0].port.number
relative socket | egress: [{port: {number: 0, protocol: HTTP}, bind: "unix://a", hosts: ["./*"]}]\n | 5 error spec.egress[0].bind
the same socket twice | egress:\n- {port: {protocol: HTTP}, bind: "unix:///a", hosts: ["./*"]}\n- {port: {protocol: HTTP}, bind: "unix:///a", hosts: ["./*"]}\n | 7 error spec.egress[1].bind
socket with IPTABLES | egress: [{port: {protocol: HTTP}, bind: "unix:///a", captureMode: IPTABLES, hosts: ["./*"]}]\n | 5 error spec.egress[0].captureMode
unknown captureMode | egress: [{captureMode: SOME, hosts: ["./*"]}]\n | 5 error spec.egress[0].captureMode
bind that is no address | egress: [{port: {number: 80, protocol: HTTP}, bind: a.b, hosts: ["./*"]}]\n | 5 error spec.egress[0].bind
ingress without port | ingress:\n- defaultEndpoint: "127.0.0.1:1"\n | 6 error spec.ingress[0].port
ingress with port 0 | ingress: [{port: {number: 0, protocol: HTTP}}]\n | 5 error spec.ingress[0].port.number
ingress with the same port twice | ingress: [{port: {number: 1, protocol: HTTP}}, {port: {number: 1, protocol: HTTP}}]\n | 5 error spec.ingress[1].port.number
)")),
                         case_name);

// An ingress listener on line 5, of an HTTPS port.
std::string ingress(std::string_view fields) {
  return "ingress: [{port: {number: 443, protocol: HTTPS}, " + std::string(fields) + "}]\n";
}
std::string ingress_tls(std::string_view fields) {
  return ingress("tls: {" + std::string(fields) + "}");
}
constexpr std::string_view kCertificates = "serverCertificate: /c, privateKey: /k";

INSTANTIATE_TEST_SUITE_P(Ingress, SidecarRules, testing::ValuesIn(rows(R"(
TLS on an HTTP port | ingress: [{port: {number: 80, protocol: HTTP}, tls: {}}]\n | 5 error spec.ingress[0].tls
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    IngressBuilt, SidecarRules,
    testing::Values(
        SpecCase{"endpoint v4", ingress("defaultEndpoint: \"127.0.0.1:9999\""), none()},
        SpecCase{"endpoint v6", ingress("defaultEndpoint: \"[::1]:9999\""), none()},
        SpecCase{"endpoint on all v4", ingress("defaultEndpoint: \"0.0.0.0:9999\""), none()},
        SpecCase{"endpoint on all v6", ingress("defaultEndpoint: \"[::]:9999\""), none()},
        SpecCase{"endpoint port only", ingress("defaultEndpoint: \":9999\""), none()},
        SpecCase{"endpoint empty", ingress("defaultEndpoint: \"\""), none()},
        SpecCase{"endpoint socket", ingress("defaultEndpoint: \"unix:///a\""), none()},
        SpecCase{"endpoint without a path",
                 ingress("defaultEndpoint: \"unix:///\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint elsewhere",
                 ingress("defaultEndpoint: \"10.0.0.1:80\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint with a name",
                 ingress("defaultEndpoint: \"localhost:80\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint with a word for a port",
                 ingress("defaultEndpoint: \"127.0.0.1:hi\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint v6 with a word for a port",
                 ingress("defaultEndpoint: \"[::1]:hi\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint with port 0",
                 ingress("defaultEndpoint: \"127.0.0.1:0\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint with port 65536",
                 ingress("defaultEndpoint: \"127.0.0.1:65536\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint without a port",
                 ingress("defaultEndpoint: \"127.0.0.1\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"endpoint v6 without brackets",
                 ingress("defaultEndpoint: \"::1:80\""),
                 {"5 error spec.ingress[0].defaultEndpoint"}},
        SpecCase{"unknown captureMode of ingress",
                 ingress("captureMode: SOME"),
                 {"5 error spec.ingress[0].captureMode"}},
        SpecCase{"TLS", ingress_tls("mode: SIMPLE, " + std::string(kCertificates)), none()},
        SpecCase{"TLS passed through", ingress_tls("mode: PASSTHROUGH"), none()},
        SpecCase{"mutual TLS",
                 ingress_tls("mode: MUTUAL, caCertificates: /ca, " + std::string(kCertificates)),
                 none()},
        SpecCase{"mutual TLS without CA",
                 ingress_tls("mode: MUTUAL, " + std::string(kCertificates)),
                 {"5 error spec.ingress[0].tls.caCertificates"}},
        SpecCase{"optional mutual TLS without CA",
                 ingress_tls("mode: OPTIONAL_MUTUAL, " + std::string(kCertificates)),
                 {"5 error spec.ingress[0].tls.caCertificates"}},
        SpecCase{"TLS without certificate",
                 ingress_tls("mode: SIMPLE"),
                 {"5 error spec.ingress[0].tls.serverCertificate",
                  "5 error spec.ingress[0].tls.privateKey"}},
        SpecCase{"TLS of Istio",
                 ingress_tls("mode: ISTIO_MUTUAL"),
                 {"5 error spec.ingress[0].tls.mode"}},
        SpecCase{"TLS passed through by SNI",
                 ingress_tls("mode: AUTO_PASSTHROUGH"),
                 {"5 error spec.ingress[0].tls.mode"}},
        SpecCase{"TLS of an unknown mode",
                 ingress_tls("mode: SOME"),
                 {"5 error spec.ingress[0].tls.mode"}},
        SpecCase{"TLS with a redirect",
                 ingress_tls("httpsRedirect: true"),
                 {"5 error spec.ingress[0].tls.httpsRedirect"}},
        SpecCase{"TLS with names",
                 ingress_tls("subjectAltNames: [a.example.org]"),
                 {"5 error spec.ingress[0].tls.subjectAltNames"}},
        SpecCase{"TLS with a credential",
                 ingress_tls("mode: SIMPLE, credentialName: a"),
                 {"5 error spec.ingress[0].tls.credentialName"}},
        SpecCase{"TLS with credentials",
                 ingress_tls("credentialNames: [a]"),
                 {"5 error spec.ingress[0].tls.credentialNames"}},
        SpecCase{"TLS with several certificates",
                 ingress_tls("tlsCertificates: [{serverCertificate: /c, privateKey: /k}]"),
                 {"5 error spec.ingress[0].tls.tlsCertificates"}},
        SpecCase{"TLS with a revocation list",
                 ingress_tls("mode: SIMPLE, caCrl: /r, " + std::string(kCertificates)),
                 {"5 error spec.ingress[0].tls.caCrl"}},
        SpecCase{"TLS of an unknown version",
                 ingress_tls("minProtocolVersion: TLSV1_9"),
                 {"5 error spec.ingress[0].tls.minProtocolVersion"}},
        SpecCase{"TLS that is a list", ingress("tls: []"), {"5 error spec.ingress[0].tls"}}),
    case_name);

std::string pool(std::string_view fields) {
  return "inboundConnectionPool: {" + std::string(fields) + "}\n";
}
std::vector<std::string> refused_at(std::string_view field) {
  return {"5 error spec.inboundConnectionPool" + std::string(field)};
}

INSTANTIATE_TEST_SUITE_P(Pool, SidecarRules, testing::ValuesIn(rows(R"(
HTTP pool of a TCP port | ingress: [{port: {number: 1, protocol: TCP}, connectionPool: {http: {maxRetries: 1}}}]\n | 5 warning spec.ingress[0].connectionPool.http
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    PoolBuilt, SidecarRules,
    testing::Values(
        SpecCase{
            "every field",
            pool("tcp: {maxConnections: 0, connectTimeout: 30ms, maxConnectionDuration: 1h30m, "
                 "idleTimeout: 0s, tcpKeepalive: {probes: 3, time: 7200s, interval: 1.5s}}, "
                 "http: {http1MaxPendingRequests: 1, http2MaxRequests: 2, "
                 "maxRequestsPerConnection: 3, maxRetries: 4, idleTimeout: 5m, "
                 "h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 6, "
                 "http2KeepAlive: {interval: 1s, timeout: 2s}}"),
            none()},
        SpecCase{"in snake case", pool("tcp: {max_connections: 1, idle_timeout: 1s}"), none()},
        SpecCase{"empty pool", pool(""), refused_at("")},
        SpecCase{"pool of nulls", pool("tcp: null, http: ~"), refused_at("")},
        SpecCase{"negative connections", pool("tcp: {maxConnections: -1}"),
                 refused_at(".tcp.maxConnections")},
        SpecCase{"too many connections", pool("tcp: {maxConnections: 2147483648}"),
                 refused_at(".tcp.maxConnections")},
        SpecCase{"quoted connections", pool("tcp: {maxConnections: \"1\"}"),
                 refused_at(".tcp.maxConnections")},
        SpecCase{"connect timeout that is no duration", pool("tcp: {connectTimeout: soon}"),
                 refused_at(".tcp.connectTimeout")},
        SpecCase{"connect timeout without unit", pool("tcp: {connectTimeout: 10}"),
                 refused_at(".tcp.connectTimeout")},
        SpecCase{"connect timeout of nothing", pool("tcp: {connectTimeout: 0s}"),
                 refused_at(".tcp.connectTimeout")},
        SpecCase{"connect timeout below a millisecond", pool("tcp: {connectTimeout: 10us}"),
                 refused_at(".tcp.connectTimeout")},
        SpecCase{"connect timeout between milliseconds", pool("tcp: {connectTimeout: 1500us}"),
                 refused_at(".tcp.connectTimeout")},
        SpecCase{"negative idle timeout", pool("tcp: {idleTimeout: -1s}"),
                 refused_at(".tcp.idleTimeout")},
        SpecCase{"bad keepalive time", pool("tcp: {tcpKeepalive: {time: 1d}}"),
                 refused_at(".tcp.tcpKeepalive.time")},
        SpecCase{"bad keepalive interval", pool("tcp: {tcpKeepalive: {interval: 0s}}"),
                 refused_at(".tcp.tcpKeepalive.interval")},
        SpecCase{"bad connection duration", pool("tcp: {maxConnectionDuration: 30s5ns}"),
                 refused_at(".tcp.maxConnectionDuration")},
        SpecCase{"negative pending requests", pool("http: {http1MaxPendingRequests: -1}"),
                 refused_at(".http.http1MaxPendingRequests")},
        SpecCase{"negative requests", pool("http: {http2MaxRequests: -1}"),
                 refused_at(".http.http2MaxRequests")},
        SpecCase{"negative requests of a connection", pool("http: {maxRequestsPerConnection: -1}"),
                 refused_at(".http.maxRequestsPerConnection")},
        SpecCase{"negative retries", pool("http: {maxRetries: -1}"),
                 refused_at(".http.maxRetries")},
        SpecCase{"negative streams", pool("http: {maxConcurrentStreams: -1}"),
                 refused_at(".http.maxConcurrentStreams")},
        SpecCase{"HTTP idle timeout of nothing", pool("http: {idleTimeout: 0s}"),
                 refused_at(".http.idleTimeout")},
        SpecCase{"unknown upgrade policy", pool("http: {h2UpgradePolicy: SOME}"),
                 refused_at(".http.h2UpgradePolicy")},
        SpecCase{"upgrade with the client's protocol",
                 pool("http: {h2UpgradePolicy: UPGRADE, useClientProtocol: true}"),
                 refused_at(".http.useClientProtocol")},
        SpecCase{"HTTP keepalive without interval", pool("http: {http2KeepAlive: {timeout: 1s}}"),
                 refused_at(".http.http2KeepAlive.interval")},
        SpecCase{"HTTP keepalive without timeout", pool("http: {http2KeepAlive: {interval: 1s}}"),
                 refused_at(".http.http2KeepAlive.timeout")},
        SpecCase{"HTTP keepalive of nothing",
                 pool("http: {http2KeepAlive: {interval: 0s, timeout: 1s}}"),
                 refused_at(".http.http2KeepAlive.interval")},
        SpecCase{"pool of a port", ingress("connectionPool: {tcp: {maxConnections: 1}}"), none()},
        SpecCase{"empty pool of a port",
                 ingress("connectionPool: {}"),
                 {"5 error spec.ingress[0].connectionPool"}},
        SpecCase{"misspelt field of a pool",
                 pool("tcp: {maxConnection: 1}"),
                 {"5 warning spec.inboundConnectionPool.tcp.maxConnection"},
                 "\"maxConnections\""}),
    case_name);

INSTANTIATE_TEST_SUITE_P(Hosts, SidecarRules, testing::ValuesIn(rows(R"(
every form | egress: [{hosts: ["./*", "other/a.example.org", "*/*.example.org", "~other/*", "~/b.example.org", "~./c.example.org", "~*/d.example.org"]}]\n |
no slash | egress: [{hosts: [a.example.org]}]\n | 5 error spec.egress[0].hosts[0]
no namespace | egress: [{hosts: [/a.example.org]}]\n | 5 error spec.egress[0].hosts[0]
bad namespace | egress: [{hosts: [a_b/a.example.org]}]\n | 5 error spec.egress[0].hosts[0]
wildcard in the namespace | egress: [{hosts: ["a*/a.example.org"]}]\n | 5 error spec.egress[0].hosts[0]
no name | egress: [{hosts: ["./"]}]\n | 5 error spec.egress[0].hosts[0]
short name | egress: [{hosts: [./reviews]}]\n | 5 error spec.egress[0].hosts[0] | short name
bad name | egress: [{hosts: [./a_b.example.org]}]\n | 5 error spec.egress[0].hosts[0]
slash in the name | egress: [{hosts: [./a/b.example.org]}]\n | 5 error spec.egress[0].hosts[0]
partial wildcard | egress: [{hosts: ["./*api.example.org"]}]\n | 5 error spec.egress[0].hosts[0]
the same twice | egress: [{hosts: [./a.example.org, shop/A.example.org]}]\n | 5 warning spec.egress[0].hosts[1]
covered by all of the namespace | egress: [{hosts: ["./*", ./a.example.org]}]\n | 5 warning spec.egress[0].hosts[1]
all of the namespace after one | egress: [{hosts: [./a.example.org, "./*"]}]\n | 5 warning spec.egress[0].hosts[1]
all of another namespace | egress: [{hosts: ["./*", "other/*"]}]\n |
everything and more | egress: [{hosts: ["*/*", other/a.example.org]}]\n | 5 warning spec.egress[0].hosts
)")),
                         case_name);

TEST(SidecarTest, ReadsTheFieldsThatDecideVisibility) {
  const auto result = only<Sidecar>(read(sidecar(
      "workloadSelector: {labels: {app: web}}\n"
      "egress:\n"
      "- {port: {number: 8080, name: http, protocol: http}, hosts: [\"Other/A.example.org.\"]}\n"
      "- hosts: [\"./*\", \"~Other/B.example.org\"]\n")));
  EXPECT_EQ(result.workload_selector, (Labels{{"app", "web"}}));
  ASSERT_EQ(result.egress.size(), 2U);
  EXPECT_EQ(result.egress[0], (EgressListener{8080, "HTTP", {"other/a.example.org"}}));
  EXPECT_EQ(result.egress[1], (EgressListener{0, "", {"./*", "~other/b.example.org"}}));
}

}  // namespace
}  // namespace meshdns::registry
