// SPDX-License-Identifier: Apache-2.0
// Every refusal and warning of a ServiceEntry, each beside its nearest accepted neighbour.
#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

// The spec's first line is line 5.
std::string entry(std::string_view spec) {
  return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
         "metadata: {name: api, namespace: shop}\nspec:\n" +
         indent(spec, 2);
}

const std::string kHttp = "ports: [{number: 80, name: http, protocol: HTTP}]\n";
const std::string kStatic = "resolution: STATIC\n" + kHttp;

class ServiceEntryRules : public testing::TestWithParam<SpecCase> {};

TEST_P(ServiceEntryRules, GiveTheirFindings) { expect_case(GetParam(), entry(GetParam().text)); }

INSTANTIATE_TEST_SUITE_P(
    Hosts, ServiceEntryRules,
    testing::Values(
        SpecCase{"one", "hosts: [a.example.org]\n" + kStatic, none()},
        SpecCase{"missing", kStatic, {"4 error spec.hosts"}},
        SpecCase{"null", "hosts:\n" + kStatic, {"4 error spec.hosts"}},
        SpecCase{"empty", "resolution: STATIC\nhosts: []\n", {"6 error spec.hosts"}},
        SpecCase{"bare wildcard", "hosts: [\"*\"]\n" + kStatic, {"5 error spec.hosts[0]"}},
        SpecCase{"wildcard", "hosts: [\"*.example.org\"]\n" + kStatic, none()},
        SpecCase{"wildcard of one label", "hosts: [\"*.org\"]\n" + kStatic, none()},
        SpecCase{"wildcard that is not leftmost",
                 "hosts:\n- good.example.org\n- \"*.*.example.org\"\n" + kStatic,
                 {"7 error spec.hosts[1]"},
                 "\"*.*.example.org\" has a wildcard that is not leftmost"},
        SpecCase{"wildcard in the middle",
                 "hosts: [a.*.example.org]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "not leftmost"},
        SpecCase{"empty label",
                 "hosts: [a..example.org]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "empty label"},
        SpecCase{"final dot", "hosts: [a.example.org.]\n" + kStatic, none()},
        SpecCase{"underscore",
                 "hosts: [under_score.example.org]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "underscore"},
        SpecCase{"hyphen", "hosts: [under-score.example.org]\n" + kStatic, none()},
        SpecCase{"IP literal",
                 "hosts: [192.0.2.1]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "IP address"},
        SpecCase{"numeric last label",
                 "hosts: [a.example.123]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "numeric label"},
        SpecCase{"too long",
                 "hosts: [" + std::string(63, 'a') + "." + std::string(63, 'a') + "." +
                     std::string(63, 'a') + "." + std::string(62, 'a') + "]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "253 bytes"},
        SpecCase{"as long as may be",
                 "hosts: [" + std::string(63, 'a') + "." + std::string(63, 'a') + "." +
                     std::string(63, 'a') + "." + std::string(61, 'a') + "]\n" + kStatic,
                 none()},
        SpecCase{"label too long",
                 "hosts: [" + std::string(64, 'a') + ".org]\n" + kStatic,
                 {"5 error spec.hosts[0]"},
                 "63 octets"},
        SpecCase{"one label", "hosts: [one-label]\n" + kStatic, none()},
        SpecCase{"the same twice", "hosts: [a.example.org, A.example.org.]\n" + kStatic, none()},
        SpecCase{"partial wildcard",
                 "hosts: [\"*api.example.org\"]\n" + kStatic,
                 {"5 warning spec.hosts[0]"}},
        SpecCase{"a string instead of a list",
                 "hosts: a.example.org\n" + kStatic,
                 {"5 error spec.hosts"},
                 "expected a list, got a string"},
        SpecCase{"a number among strings",
                 "hosts:\n- a.example.org\n- 42\n" + kStatic,
                 {"7 error spec.hosts[1]"},
                 "quotes"},
        SpecCase{"a null among strings",
                 "hosts: [a.example.org, null]\n" + kStatic,
                 {"5 error spec.hosts[1]"}},
        SpecCase{"a mapping", "hosts: {a: b}\n" + kStatic, {"5 error spec.hosts"}}),
    case_name);

std::string many_hosts(std::size_t count) {
  std::string out = "hosts:\n";
  for (std::size_t i = 0; i < count; ++i) out += "- h" + std::to_string(i) + ".example.org\n";
  return out;
}
std::string many_addresses(std::size_t count) {
  std::string out = "hosts: [a.example.org]\naddresses:\n";
  for (std::size_t i = 0; i < count; ++i)
    out += "- 10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256) + "\n";
  return out;
}
std::string many_endpoints(std::size_t count) {
  std::string out = "hosts: [a.example.org]\nendpoints:\n";
  for (std::size_t i = 0; i < count; ++i)
    out += "- {address: 10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256) + "}\n";
  return out;
}
std::string many_ports(std::size_t count) {
  std::string out = "hosts: [a.example.org]\nports:\n";
  for (std::size_t i = 1; i <= count; ++i)
    out +=
        "- {number: " + std::to_string(i) + ", name: p" + std::to_string(i) + ", protocol: HTTP}\n";
  return out;
}

const std::string kTooManyPortsAndOneOfAnEndpoint =
    many_ports(257) + "resolution: STATIC\nendpoints:\n- {address: 10.0.0.1, ports: {p257: 1}}\n";

INSTANTIATE_TEST_SUITE_P(
    Bounds, ServiceEntryRules,
    testing::Values(
        SpecCase{"256 hosts", many_hosts(256) + kStatic, none()},
        SpecCase{"257 hosts", many_hosts(257) + kStatic, {"5 error spec.hosts"}},
        SpecCase{"256 addresses", many_addresses(256) + kStatic, none()},
        SpecCase{"257 addresses", many_addresses(257) + kStatic, {"6 error spec.addresses"}},
        SpecCase{"4096 endpoints", many_endpoints(4096) + kStatic, none()},
        SpecCase{"4097 endpoints", many_endpoints(4097) + kStatic, {"6 error spec.endpoints"}},
        SpecCase{"256 ports", many_ports(256) + "resolution: STATIC\n", none()},
        SpecCase{"257 ports", many_ports(257) + "resolution: STATIC\n", {"6 error spec.ports"}},
        SpecCase{"257 ports, one error", kTooManyPortsAndOneOfAnEndpoint, {"6 error spec.ports"}}),
    case_name);

const std::string kHost = "hosts: [a.example.org]\n";

INSTANTIATE_TEST_SUITE_P(
    Modes, ServiceEntryRules,
    testing::Values(
        SpecCase{"unknown resolution",
                 kHost + "resolution: SOMETIMES\n",
                 {"6 error spec.resolution"},
                 "SOMETIMES"},
        SpecCase{"lower case resolution",
                 kHost + "resolution: static\n",
                 {"6 error spec.resolution"},
                 "did you mean \"STATIC\"?"},
        SpecCase{"NONE", kHost + "resolution: NONE\n", none()},
        SpecCase{"omitted resolution", kHost, none()},
        SpecCase{"unknown location", kHost + "location: MESH_NOWHERE\n", {"6 error spec.location"}},
        SpecCase{"location", kHost + "location: MESH_INTERNAL\n", none()},
        SpecCase{"number as resolution", kHost + "resolution: 1\n", {"6 error spec.resolution"}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Selector, ServiceEntryRules,
    testing::Values(
        SpecCase{"labels", kHost + kStatic + "workloadSelector: {labels: {app: x}}\n", none()},
        SpecCase{"no labels",
                 kHost + kStatic + "workloadSelector: {}\n",
                 {"8 warning spec.workloadSelector"}},
        SpecCase{"empty labels",
                 kHost + kStatic + "workloadSelector: {labels: {}}\n",
                 {"8 warning spec.workloadSelector"}},
        SpecCase{"empty key",
                 kHost + kStatic + "workloadSelector: {labels: {\"\": x}}\n",
                 {"8 error spec.workloadSelector.labels."}},
        SpecCase{"wildcard in the key",
                 kHost + kStatic + "workloadSelector: {labels: {\"a*\": x}}\n",
                 {"8 error spec.workloadSelector.labels.a*"}},
        SpecCase{"wildcard in the value",
                 kHost + kStatic + "workloadSelector:\n  labels:\n    app: \"x*\"\n",
                 {"10 error spec.workloadSelector.labels.app"}},
        SpecCase{"with endpoints",
                 kHost + kStatic +
                     "workloadSelector: {labels: {app: x}}\nendpoints: [{address: 10.0.0.1}]\n",
                 {"9 error spec.endpoints"}},
        SpecCase{"empty, with endpoints",
                 kHost + kStatic + "workloadSelector: {}\nendpoints: [{address: 10.0.0.1}]\n",
                 {"8 warning spec.workloadSelector", "9 error spec.endpoints"}},
        SpecCase{"with NONE",
                 kHost + kHttp + "workloadSelector: {labels: {app: x}}\n",
                 {"7 warning spec.workloadSelector"}},
        SpecCase{"with DNS",
                 kHost + kHttp + "resolution: DNS\nworkloadSelector: {labels: {app: x}}\n", none()},
        SpecCase{"number as a value",
                 kHost + kStatic + "workloadSelector: {labels: {app: 1}}\n",
                 {"8 error spec.workloadSelector.labels.app"}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Addresses, ServiceEntryRules,
    testing::Values(
        SpecCase{"IPv4 and IPv6", kHost + kStatic + "addresses: [10.0.0.1, \"2001:db8::1\"]\n",
                 none()},
        SpecCase{"octet too large",
                 kHost + kStatic + "addresses: [10.0.0.1, 10.0.0.300]\n",
                 {"8 error spec.addresses[1]"},
                 "10.0.0.300"},
        SpecCase{"name",
                 kHost + kStatic + "addresses: [a.example.org]\n",
                 {"8 error spec.addresses[0]"}},
        SpecCase{"CIDR with host bits", kHost + kStatic + "addresses: [10.0.0.77/24]\n", none()},
        SpecCase{"prefix too long",
                 kHost + kStatic + "addresses: [10.0.0.0/33]\n",
                 {"8 error spec.addresses[0]"}},
        SpecCase{"two slashes",
                 kHost + kStatic + "addresses: [10.0.0.0/8/8]\n",
                 {"8 error spec.addresses[0]"}},
        SpecCase{"CIDR with NONE", kHost + "addresses: [10.0.0.0/8]\n", none()},
        SpecCase{"CIDR with DNS",
                 kHost + kHttp + "resolution: DNS\naddresses: [10.0.0.1, 10.0.0.0/8]\n",
                 {"8 error spec.addresses[1]"},
                 "CIDR"},
        SpecCase{"single address with DNS",
                 kHost + kHttp + "resolution: DNS\naddresses: [10.0.0.1]\n", none()},
        SpecCase{"full-length CIDR with DNS_ROUND_ROBIN",
                 kHost + kHttp + "resolution: DNS_ROUND_ROBIN\naddresses: [10.0.0.1/32]\n",
                 {"8 error spec.addresses[0]"}}),
    case_name);

std::string ports(std::string_view list) {
  return kHost + "resolution: STATIC\nports:\n" + std::string(list);
}

INSTANTIATE_TEST_SUITE_P(
    Ports, ServiceEntryRules,
    testing::Values(
        SpecCase{"two",
                 ports("- {number: 80, name: http, protocol: HTTP}\n"
                       "- {number: 443, name: tls, protocol: TLS}\n"),
                 none()},
        SpecCase{"null item",
                 ports("- {number: 80, name: http, protocol: HTTP}\n-\n"),
                 {"9 error spec.ports[1]"}},
        SpecCase{"same name",
                 ports("- {number: 80, name: http, protocol: HTTP}\n"
                       "- {number: 81, name: http, protocol: HTTP}\n"),
                 {"9 error spec.ports[1].name"}},
        SpecCase{"same number",
                 ports("- {number: 80, name: http, protocol: HTTP}\n"
                       "- {number: 80, name: other, protocol: HTTP}\n"),
                 {"9 error spec.ports[1].number"}},
        SpecCase{"number 0",
                 ports("- {number: 0, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"number 1", ports("- {number: 1, name: http, protocol: HTTP}\n"), none()},
        SpecCase{"number 65535", ports("- {number: 65535, name: http, protocol: HTTP}\n"), none()},
        SpecCase{"number 65536",
                 ports("- {number: 65536, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"negative number",
                 ports("- {number: -1, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"number out of all bounds",
                 ports("- {number: 99999999999999999999, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"fraction",
                 ports("- {number: 80.5, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"word as number",
                 ports("- {number: many, name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"quoted number",
                 ports("- {number: \"80\", name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"missing number",
                 ports("- {name: http, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].number"}},
        SpecCase{"missing name",
                 ports("- {number: 80, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].name"}},
        SpecCase{"name with a dot",
                 ports("- {number: 80, name: a.b, protocol: HTTP}\n"),
                 {"8 error spec.ports[0].name"}},
        SpecCase{"upper case name", ports("- {number: 80, name: HTTP-1, protocol: HTTP}\n"),
                 none()},
        SpecCase{"target port",
                 ports("- {number: 80, name: http, protocol: HTTP, targetPort: 8080}\n"), none()},
        SpecCase{"target port 0",
                 ports("- {number: 80, name: http, protocol: HTTP, targetPort: 0}\n"), none()},
        SpecCase{"target port too large",
                 ports("- {number: 80, name: http, protocol: HTTP, targetPort: 65536}\n"),
                 {"8 error spec.ports[0].targetPort"}},
        SpecCase{"unknown protocol",
                 ports("- {number: 80, name: http, protocol: HTPP}\n"),
                 {"8 error spec.ports[0].protocol"},
                 "did you mean \"HTTP\"?"},
        SpecCase{"lower case protocol", ports("- {number: 80, name: http, protocol: http2}\n"),
                 none()},
        SpecCase{"no protocol", ports("- {number: 80, name: http}\n"), none()},
        SpecCase{
            "every protocol",
            ports(
                "- {number: 1, name: a, protocol: tcp}\n- {number: 2, name: b, protocol: udp}\n"
                "- {number: 3, name: c, protocol: grpc}\n- {number: 4, name: d, protocol: "
                "grpc-web}\n"
                "- {number: 5, name: e, protocol: http}\n- {number: 6, name: f, protocol: "
                "http_proxy}\n"
                "- {number: 7, name: g, protocol: http2}\n- {number: 8, name: h, protocol: https}\n"
                "- {number: 9, name: i, protocol: tls}\n- {number: 10, name: j, protocol: mongo}\n"
                "- {number: 11, name: k, protocol: redis}\n- {number: 12, name: l, protocol: "
                "mysql}\n"),
            none()},
        SpecCase{"a list instead of a mapping", ports("- [80, http]\n"), {"8 error spec.ports[0]"}},
        SpecCase{"unknown field",
                 ports("- {number: 80, name: http, protocol: HTTP, targetport: 1}\n"),
                 {"8 warning spec.ports[0].targetport"},
                 "did you mean \"targetPort\"?"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    TcpWithoutAddresses, ServiceEntryRules,
    testing::Values(
        SpecCase{"TCP and NONE",
                 kHost + "ports: [{number: 1, name: a, protocol: TCP}]\n",
                 {"6 warning spec.ports[0].protocol"}},
        SpecCase{"unset and NONE",
                 kHost + "ports: [{number: 1, name: a}]\n",
                 {"6 warning spec.ports[0]"}},
        SpecCase{"lower case tcp and NONE",
                 kHost + "ports: [{number: 1, name: a, protocol: tcp}]\n", none()},
        SpecCase{"TLS and NONE", kHost + "ports: [{number: 1, name: a, protocol: TLS}]\n", none()},
        SpecCase{"TCP with an address",
                 kHost + "addresses: [10.0.0.1]\nports: [{number: 1, name: a, protocol: TCP}]\n",
                 none()},
        SpecCase{"TCP that is allocated an address",
                 kHost + "resolution: STATIC\nports: [{number: 1, name: a, protocol: TCP}]\n",
                 none()}),
    case_name);

std::string endpoints(std::string_view resolution, std::string_view list) {
  return kHost + "resolution: " + std::string(resolution) + "\n" + kHttp + "endpoints:\n" +
         std::string(list);
}

INSTANTIATE_TEST_SUITE_P(
    StaticEndpoints, ServiceEntryRules,
    testing::Values(
        SpecCase{"none at all", kHost + kStatic, none()},
        SpecCase{"address and port",
                 endpoints("STATIC", "- {address: 10.0.0.1, ports: {http: 8080}}\n"), none()},
        SpecCase{"null",
                 endpoints("STATIC", "- address: 10.0.0.1\n-\n"),
                 {"10 error spec.endpoints[1]"}},
        SpecCase{"no address",
                 endpoints("STATIC", "- labels: {a: b}\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"network without address",
                 endpoints("STATIC", "- network: east\n"),
                 {"9 warning spec.endpoints[0].address"}},
        SpecCase{"name",
                 endpoints("STATIC", "- address: b.example.org\n"),
                 {"9 error spec.endpoints[0].address"},
                 "not an IP address"},
        SpecCase{"address with port",
                 endpoints("STATIC", "- address: 10.0.0.1:80\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"socket", endpoints("STATIC", "- address: unix:///run/a.sock\n"), none()},
        SpecCase{"abstract socket", endpoints("STATIC", "- address: unix://@a\n"), none()},
        SpecCase{"relative socket",
                 endpoints("STATIC", "- address: unix://run/a.sock\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"socket that is a directory",
                 endpoints("STATIC", "- address: unix:///run/\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"socket without name",
                 endpoints("STATIC", "- address: \"unix://\"\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"socket with ports",
                 endpoints("STATIC", "- {address: \"unix:///a\", ports: {http: 80}}\n"),
                 {"9 error spec.endpoints[0].ports"}},
        SpecCase{"socket of an entry with two ports",
                 kHost + "resolution: STATIC\nports:\n"
                         "- {number: 80, name: http, protocol: HTTP}\n"
                         "- {number: 81, name: more, protocol: HTTP}\n"
                         "endpoints: [{address: \"unix:///a\"}]\n",
                 {"10 error spec.endpoints[0].address"}},
        SpecCase{"socket of an entry without ports",
                 kHost + "resolution: STATIC\nendpoints: [{address: \"unix:///a\"}]\n",
                 {"7 error spec.endpoints[0].address"}},
        SpecCase{"unknown port",
                 endpoints("STATIC", "- address: 10.0.0.1\n  ports: {other: 80}\n"),
                 {"10 error spec.endpoints[0].ports.other"}},
        SpecCase{"bad port number",
                 endpoints("STATIC", "- {address: 10.0.0.1, ports: {http: 0}}\n"),
                 {"9 error spec.endpoints[0].ports.http"}},
        SpecCase{"bad port name",
                 endpoints("STATIC", "- {address: 10.0.0.1, ports: {a_b: 80}}\n"),
                 {"9 error spec.endpoints[0].ports.a_b"}},
        SpecCase{"good labels",
                 endpoints("STATIC",
                           "- {address: 10.0.0.1, labels: {example.org/App_1.x: \"\", b: c-1}}\n"),
                 none()},
        SpecCase{"bad label key",
                 endpoints("STATIC", "- {address: 10.0.0.1, labels: {a/b/c: x}}\n"),
                 {"9 error spec.endpoints[0].labels.a/b/c"}},
        SpecCase{"bad label value",
                 endpoints("STATIC", "- {address: 10.0.0.1, labels: {a: \"x y\"}}\n"),
                 {"9 error spec.endpoints[0].labels.a"}},
        SpecCase{"weight", endpoints("STATIC", "- {address: 10.0.0.1, weight: 4294967295}\n"),
                 none()},
        SpecCase{"weight below zero",
                 endpoints("STATIC", "- {address: 10.0.0.1, weight: -1}\n"),
                 {"9 error spec.endpoints[0].weight"}},
        SpecCase{"unknown field",
                 endpoints("STATIC", "- {address: 10.0.0.1, wieght: 1}\n"),
                 {"9 warning spec.endpoints[0].wieght"},
                 "\"weight\""},
        SpecCase{"string", endpoints("STATIC", "- 10.0.0.1\n"), {"9 error spec.endpoints[0]"}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    OtherResolutions, ServiceEntryRules,
    testing::Values(
        SpecCase{"NONE with endpoints",
                 kHost + "endpoints: [{address: 10.0.0.1}]\n",
                 {"6 error spec.endpoints"}},
        SpecCase{"NONE with an empty list", kHost + "endpoints: []\n", none()},
        SpecCase{"DNS and a wildcard without endpoints",
                 "hosts: [a.example.org, \"*.example.org\"]\n" + kHttp + "resolution: DNS\n",
                 {"5 error spec.hosts[1]"}},
        SpecCase{"DNS and a wildcard with endpoints",
                 "hosts: [\"*.example.org\"]\n" + kHttp +
                     "resolution: DNS\nendpoints: [{address: b.example.org}]\n",
                 none()},
        SpecCase{"DNS and a wildcard with a selector",
                 "hosts: [\"*.example.org\"]\n" + kHttp +
                     "resolution: DNS\nworkloadSelector: {labels: {app: x}}\n",
                 {"5 error spec.hosts[0]"}},
        SpecCase{"DNS endpoint by address and by name",
                 endpoints("DNS", "- address: 10.0.0.1\n- address: b.example.org\n"), none()},
        SpecCase{"DNS endpoint that is a socket",
                 endpoints("DNS", "- address: unix:///a\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"DNS endpoint that is a wildcard",
                 endpoints("DNS", "- address: \"*.example.org\"\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"DNS endpoint with a network only",
                 endpoints("DNS", "- network: east\n"),
                 {"9 error spec.endpoints[0].address"}},
        SpecCase{"DNS endpoint with an unknown port",
                 endpoints("DNS", "- {address: b.example.org, ports: {other: 80}}\n"),
                 {"9 error spec.endpoints[0].ports.other"}},
        SpecCase{"DNS endpoint with a bad label",
                 endpoints("DNS", "- {address: b.example.org, labels: {a: \"x y\"}}\n"),
                 {"9 error spec.endpoints[0].labels.a"}},
        SpecCase{"DNS_ROUND_ROBIN with one endpoint",
                 endpoints("DNS_ROUND_ROBIN", "- address: b.example.org\n"), none()},
        SpecCase{
            "DNS_ROUND_ROBIN with two endpoints",
            endpoints("DNS_ROUND_ROBIN", "- address: b.example.org\n- address: c.example.org\n"),
            {"8 error spec.endpoints"}},
        SpecCase{"DNS_ROUND_ROBIN and a wildcard",
                 "hosts: [\"*.example.org\"]\n" + kHttp + "resolution: DNS_ROUND_ROBIN\n",
                 {"5 error spec.hosts[0]"}}),
    case_name);

const std::string kDynamic = "hosts: [\"*.example.org\"]\nresolution: DYNAMIC_DNS\n";

INSTANTIATE_TEST_SUITE_P(
    DynamicDns, ServiceEntryRules,
    testing::Values(
        SpecCase{"wildcard", kDynamic + "ports: [{number: 443, name: tls, protocol: TLS}]\n",
                 none()},
        SpecCase{"partial wildcard", "hosts: [\"*api.example.org\"]\nresolution: DYNAMIC_DNS\n",
                 none()},
        SpecCase{"no host", "resolution: DYNAMIC_DNS\n", {"4 error spec.hosts"}},
        SpecCase{"host without wildcard",
                 kHost + "resolution: DYNAMIC_DNS\n",
                 {"5 error spec.hosts[0]"}},
        SpecCase{"addresses", kDynamic + "addresses: [10.0.0.1]\n", {"7 error spec.addresses"}},
        SpecCase{"endpoints",
                 kDynamic + "endpoints: [{address: b.example.org}]\n",
                 {"7 error spec.endpoints"}},
        SpecCase{"every protocol it knows",
                 kDynamic + "ports:\n- {number: 1, name: a, protocol: HTTP}\n"
                            "- {number: 2, name: b, protocol: HTTP2}\n"
                            "- {number: 3, name: c, protocol: GRPC}\n",
                 none()},
        SpecCase{"HTTPS",
                 kDynamic + "ports: [{number: 1, name: a, protocol: HTTPS}]\n",
                 {"7 error spec.ports[0].protocol"}},
        SpecCase{
            "no protocol", kDynamic + "ports: [{number: 1, name: a}]\n", {"7 error spec.ports[0]"}},
        SpecCase{"internal without waypoint", kDynamic + "location: MESH_INTERNAL\n", none()}),
    case_name);

const std::string kHosts = "hosts: [a.example.org, b.example.org]\n";

INSTANTIATE_TEST_SUITE_P(
    SeveralHosts, ServiceEntryRules,
    testing::Values(
        SpecCase{"HTTP and TLS",
                 kHosts + "resolution: STATIC\nports:\n- {number: 1, name: a, protocol: GRPC-WEB}\n"
                          "- {number: 2, name: b, protocol: HTTPS}\n",
                 none()},
        SpecCase{"TCP",
                 kHosts + "resolution: STATIC\nports:\n- {number: 1, name: a, protocol: HTTP}\n"
                          "- {number: 2, name: b, protocol: TCP}\n",
                 {"9 error spec.ports[1].protocol"}},
        SpecCase{"no protocol",
                 kHosts + "resolution: STATIC\nports: [{number: 1, name: a}]\n",
                 {"7 error spec.ports[0].protocol"}},
        SpecCase{"UDP",
                 kHosts + "resolution: DNS\nports: [{number: 1, name: a, protocol: UDP}]\n",
                 {"7 error spec.ports[0].protocol"}},
        SpecCase{"TCP with NONE",
                 kHosts + "addresses: [10.0.0.1]\nports: [{number: 1, name: a, protocol: TCP}]\n",
                 none()},
        SpecCase{"DNS with addresses and TLS",
                 kHosts + "resolution: DNS\naddresses: [10.0.0.1]\n"
                          "ports: [{number: 1, name: a, protocol: TLS}]\n",
                 {"5 warning spec.hosts"}},
        SpecCase{"DNS with addresses and HTTP",
                 kHosts + "resolution: DNS\naddresses: [10.0.0.1]\n" + kHttp, none()},
        SpecCase{"STATIC with addresses and TLS",
                 kHosts + "resolution: STATIC\naddresses: [10.0.0.1]\n"
                          "ports: [{number: 1, name: a, protocol: TLS}]\n",
                 none()}),
    case_name);

std::string exported(std::string_view list) {
  return kHost + kStatic + "exportTo: " + std::string(list) + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    ExportTo, ServiceEntryRules,
    testing::Values(
        SpecCase{"own and another", exported("[\".\", web]"), none()},
        SpecCase{"only elsewhere", exported("[web]"), none()},
        SpecCase{"everybody", exported("[\"*\"]"), none()},
        SpecCase{"nobody", exported("[\"~\"]"), none()},
        SpecCase{"the same twice", exported("[web, web]"), {"8 error spec.exportTo[1]"}},
        SpecCase{"own namespace twice", exported("[\".\", shop]"), {"8 error spec.exportTo[1]"}},
        SpecCase{"own namespace twice, the other way",
                 exported("[shop, \".\"]"),
                 {"8 error spec.exportTo[1]"}},
        SpecCase{"no namespace", exported("[web_1]"), {"8 error spec.exportTo[0]"}},
        SpecCase{"empty", exported("[\"\"]"), {"8 error spec.exportTo[0]"}},
        SpecCase{"everybody and one", exported("[\"*\", web]"), {"8 error spec.exportTo"}},
        SpecCase{"nobody and one", exported("[\"~\", \".\"]"), {"8 error spec.exportTo"}}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Spelling, ServiceEntryRules,
    testing::Values(SpecCase{"names of the .proto file",
                             kHost + kStatic +
                                 "export_to: [web]\nworkload_selector: {labels: {app: x}}\n"
                                 "subject_alt_names: [spiffe://a]\n",
                             none()},
                    SpecCase{"both spellings",
                             exported("[web]") + "export_to: [web]\n",
                             {"9 error spec.export_to"}},
                    SpecCase{"misspelt",
                             kHost + kStatic + "adresses: [10.0.0.1]\n",
                             {"8 warning spec.adresses"},
                             "did you mean \"addresses\"?"},
                    SpecCase{"unheard of",
                             kHost + kStatic + "somethingElseAltogether: 1\n",
                             {"8 warning spec.somethingElseAltogether"},
                             "unknown field"}),
    case_name);

TEST(ServiceEntryTest, ObjectLevelRulesHaveTheirLines) {
  const std::string head = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n";
  const std::string spec = "spec: {hosts: [a.example.org], resolution: STATIC}\n";
  const std::vector<SpecCase> cases = {
      {"good", head + "metadata: {name: api}\n" + spec, {}},
      {"no spec", head + "metadata: {name: api}\n", {"1 error spec"}},
      {"null spec", head + "metadata: {name: api}\nspec:\n", {"1 error spec"}},
      {"spec is a list", head + "metadata: {name: api}\nspec: []\n", {"4 error spec"}},
      {"no metadata", head + spec, {"1 error metadata.name"}},
      {"no name", head + "metadata: {namespace: shop}\n" + spec, {"3 error metadata.name"}},
      {"generateName only",
       head + "metadata: {generateName: a-}\n" + spec,
       {"3 error metadata.name"}},
      {"metadata is a string", head + "metadata: api\n" + spec, {"3 error metadata"}},
      {"name is a number", head + "metadata: {name: 7}\n" + spec, {"3 error metadata.name"}},
      {"upper case name", head + "metadata: {name: Api}\n" + spec, {"3 error metadata.name"}},
      {"name with dots", head + "metadata: {name: api.v1}\n" + spec, {}},
      {"bad namespace",
       head + "metadata: {name: api, namespace: a.b}\n" + spec,
       {"3 error metadata.namespace"}},
      {"unknown metadata",
       head + "metadata: {name: api, lables: {}}\n" + spec,
       {"3 warning metadata.lables"},
       "\"labels\""},
      {"label that is no string",
       head + "metadata: {name: api, labels: {a: true}}\n" + spec,
       {"3 error metadata.labels.a"},
       "quotes"},
      {"bad time",
       head + "metadata: {name: api, creationTimestamp: yesterday}\n" + spec,
       {"3 warning metadata.creationTimestamp"}},
      {"null time", head + "metadata: {name: api, creationTimestamp: null}\n" + spec, {}},
      {"unknown top field",
       head + "metadata: {name: api}\nstaus: {}\n" + spec,
       {"4 warning staus"},
       "\"status\""},
      {"dry-run annotation",
       head + "metadata:\n  name: api\n  annotations:\n    istio.io/dry-run: \"true\"\n" + spec,
       {"6 error metadata.annotations.istio.io/dry-run"}},
      {"always-reject annotation",
       head +
           "metadata: {name: api, annotations: {internal.istio.io/webhook-always-reject: \"\"}}\n" +
           spec,
       {"3 error metadata.annotations.internal.istio.io/webhook-always-reject"}},
      {"parents annotation",
       head + "metadata: {name: api, annotations: {internal.istio.io/parents: a}}\n" + spec,
       {"3 error metadata.annotations.internal.istio.io/parents"}},
      {"other annotation",
       head + "metadata: {name: api, annotations: {example.org/a: b}}\n" + spec,
       {}},
      {"waypoint with DYNAMIC_DNS",
       head + "metadata: {name: api, labels: {istio.io/use-waypoint: w}}\n"
              "spec: {hosts: [\"*.a.org\"], resolution: DYNAMIC_DNS, location: MESH_INTERNAL}\n",
       {"4 error spec.location"}},
      {"no waypoint with DYNAMIC_DNS",
       head + "metadata: {name: api, labels: {istio.io/use-waypoint: None}}\n"
              "spec: {hosts: [\"*.a.org\"], resolution: DYNAMIC_DNS, location: MESH_INTERNAL}\n",
       {}},
      {"opted out and TCP",
       head + "metadata:\n  name: api\n"
              "  labels: {networking.istio.io/enable-autoallocate-ip: \"False\"}\n"
              "spec:\n  hosts: [a.example.org]\n  resolution: STATIC\n"
              "  ports: [{number: 1, name: a, protocol: TCP}]\n",
       {"9 warning spec.ports[0].protocol"}},
  };
  for (const SpecCase& c : cases) expect_case(c, c.text);
}

TEST(ServiceEntryTest, KeepsACreationTimeOf1970ApartFromNone) {
  const auto created = [](const std::string& metadata) {
    return only<ServiceEntry>(read("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
                                   "metadata: {name: a" +
                                   metadata +
                                   "}\nspec: {hosts: [a.example.org], addresses: [10.0.0.1], "
                                   "resolution: STATIC, ports: [{number: 80, name: http}]}\n"))
        .meta.creation_time;
  };
  EXPECT_EQ(created(", creationTimestamp: \"1970-01-01T00:00:00Z\""), 0);
  EXPECT_EQ(created(", creationTimestamp: \"1969-12-31T23:59:59.5Z\""), -1);
  EXPECT_EQ(created(", creationTimestamp: null"), kUnknownCreationTime);
  EXPECT_EQ(created(""), kUnknownCreationTime);
}

TEST(ServiceEntryTest, ReadsEveryFieldIntoCanonicalForm) {
  const auto entry = only<ServiceEntry>(read(R"(
apiVersion: networking.istio.io/v1beta1
kind: ServiceEntry
metadata:
  name: api
  namespace: shop
  labels: {networking.istio.io/enable-autoallocate-ip: "FALSE", app: api}
  creationTimestamp: "2026-01-31T12:00:00Z"
spec:
  hosts: [API.Example.ORG., "*.Wild.example.org", api.example.org]
  addresses: [10.0.0.1, 10.1.0.0/16, "2001:DB8::1"]
  ports:
  - {number: 443, name: HTTPS, protocol: https, targetPort: 8443}
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints:
  - address: 10.2.0.1
    ports: {HTTPS: 9443}
    labels: {version: v1, app: api}
    network: east
    locality: r/z/s
    weight: 7
    serviceAccount: sa
  - address: unix:///Run/x.Sock
  exportTo: [".", Web]
  subjectAltNames: [spiffe://cluster.local/ns/shop/sa/sa]
status:
  addresses:
  - {host: API.example.org, value: 240.240.0.1}
  - {value: "2001:2::1"}
)"));
  EXPECT_EQ(entry.meta.name, "api");
  EXPECT_EQ(entry.meta.ns, "shop");
  EXPECT_EQ(entry.meta.creation_time, 1769860800);
  EXPECT_EQ(entry.meta.labels.front().first, "app");
  EXPECT_FALSE(entry.auto_allocate);
  EXPECT_EQ(entry.hosts, (std::vector<std::string>{"api.example.org", "*.wild.example.org"}));
  ASSERT_EQ(entry.addresses.size(), 3U);
  EXPECT_EQ(entry.addresses[1].to_string(), "10.1.0.0/16");
  EXPECT_TRUE(entry.addresses[2].is_single());
  EXPECT_EQ(entry.ports, (std::vector<ServicePort>{{443, 8443, "https", "HTTPS"}}));
  EXPECT_EQ(entry.location, Location::MeshInternal);
  EXPECT_EQ(entry.resolution, Resolution::Static);
  ASSERT_EQ(entry.endpoints.size(), 2U);
  EXPECT_EQ(entry.endpoints[0].address, "10.2.0.1");
  EXPECT_EQ(entry.endpoints[0].ports,
            (std::vector<std::pair<std::string, std::uint16_t>>{{"https", 9443}}));
  EXPECT_EQ(entry.endpoints[0].labels, (Labels{{"app", "api"}, {"version", "v1"}}));
  EXPECT_EQ(entry.endpoints[0].network, "east");
  EXPECT_EQ(entry.endpoints[0].locality, "r/z/s");
  EXPECT_EQ(entry.endpoints[0].weight, 7U);
  EXPECT_EQ(entry.endpoints[0].service_account, "sa");
  EXPECT_EQ(entry.endpoints[1].address, "unix:///Run/x.Sock");
  EXPECT_EQ(entry.export_to, (ExportTo{".", "web"}));
  EXPECT_EQ(entry.subject_alt_names.size(), 1U);
  EXPECT_EQ(entry.status_addresses,
            (std::vector<StatusAddress>{{"api.example.org", *IpAddress::parse("240.240.0.1")},
                                        {"", *IpAddress::parse("2001:2::1")}}));
}

TEST(ServiceEntryTest, IgnoresAnInvalidAddressInTheStatus) {
  const Collected collected = read(entry(kHost + kStatic) +
                                   "status:\n  addresses:\n  - {value: x}\n"
                                   "  - {value: 240.240.0.1}\n");
  EXPECT_EQ(collected.places(), std::vector<std::string>{"10 warning status.addresses[0].value"});
  EXPECT_EQ(only<ServiceEntry>(collected).status_addresses.size(), 1U);
}

TEST(ServiceEntryTest, WarningsOfOneObjectAreBounded) {
  std::string text = "hosts: [a.example.org, bad_host]\n";
  for (int i = 0; i < 200; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const Collected collected = read(entry(text));
  EXPECT_EQ(collected.findings.size(), 51U);
  EXPECT_TRUE(collected.says("more warnings of this object are not shown"));
  EXPECT_TRUE(collected.says("error: ServiceEntry shop/api: spec.hosts[1]")) << collected.all();
  EXPECT_EQ(collected.refused.size(), 1U);
}

TEST(ServiceEntryTest, ErrorsOfOneObjectAreBoundedLater) {
  for (const int count : {200, 256}) {
    std::string text = "hosts:\n";
    for (int i = 0; i < count; ++i) text += "- bad_" + std::to_string(i) + "\n";
    EXPECT_EQ(read(entry(text)).findings.size(), static_cast<std::size_t>(count));
  }
  std::string text = "hosts: [a.example.org]\nresolution: STATIC\nendpoints:\n";
  for (int i = 0; i < 2'000; ++i) text += "- {address: bad_" + std::to_string(i) + "}\n";
  const Collected collected = read(entry(text));
  EXPECT_EQ(collected.findings.size(), 1'000U);
  EXPECT_TRUE(collected.says("more errors of this object are not shown"));
}

}  // namespace
}  // namespace meshdns::registry
