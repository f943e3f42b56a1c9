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

std::vector<SpecCase> cases_of(std::string_view table);

class ServiceEntryRules : public testing::TestWithParam<SpecCase> {};

TEST_P(ServiceEntryRules, GiveTheirFindings) { expect_case(GetParam(), entry(GetParam().text)); }

INSTANTIATE_TEST_SUITE_P(Hosts, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
one | hosts: [a.example.org]\n<static> |
missing | <static> | 4 error spec.hosts
null | hosts:\n<static> | 4 error spec.hosts
empty | resolution: STATIC\nhosts: []\n | 6 error spec.hosts
bare wildcard | hosts: ["*"]\n<static> | 5 error spec.hosts[0]
wildcard | hosts: ["*.example.org"]\n<static> |
wildcard of one label | hosts: ["*.org"]\n<static> |
wildcard that is not leftmost | hosts:\n- good.example.org\n- "*.*.example.org"\n<static> | 7 error spec.hosts[1] | "*.*.example.org" has a wildcard that is not leftmost
wildcard in the middle | hosts: [a.*.example.org]\n<static> | 5 error spec.hosts[0] | not leftmost
empty label | hosts: [a..example.org]\n<static> | 5 error spec.hosts[0] | empty label
final dot | hosts: [a.example.org.]\n<static> |
underscore | hosts: [under_score.example.org]\n<static> | 5 error spec.hosts[0] | underscore
hyphen | hosts: [under-score.example.org]\n<static> |
IP literal | hosts: [192.0.2.1]\n<static> | 5 error spec.hosts[0] | IP address
numeric last label | hosts: [a.example.123]\n<static> | 5 error spec.hosts[0] | numeric label
one label | hosts: [one-label]\n<static> |
the same twice | hosts: [a.example.org, A.example.org.]\n<static> |
partial wildcard | hosts: ["*api.example.org"]\n<static> | 5 warning spec.hosts[0]
a string instead of a list | hosts: a.example.org\n<static> | 5 error spec.hosts | expected a list, got a string
a number among strings | hosts:\n- a.example.org\n- 42\n<static> | 7 error spec.hosts[1] | quotes
a null among strings | hosts: [a.example.org, null]\n<static> | 5 error spec.hosts[1]
a mapping | hosts: {a: b}\n<static> | 5 error spec.hosts
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    HostsBuilt, ServiceEntryRules,
    testing::Values(
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
                 "63 octets"}),
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

INSTANTIATE_TEST_SUITE_P(Modes, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
unknown resolution | <host>resolution: SOMETIMES\n | 6 error spec.resolution | SOMETIMES
lower case resolution | <host>resolution: static\n | 6 error spec.resolution | did you mean "STATIC"?
NONE | <host>resolution: NONE\n |
omitted resolution | <host> |
unknown location | <host>location: MESH_NOWHERE\n | 6 error spec.location
location | <host>location: MESH_INTERNAL\n |
number as resolution | <host>resolution: 1\n | 6 error spec.resolution
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Selector, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
labels | <host><static>workloadSelector: {labels: {app: x}}\n |
no labels | <host><static>workloadSelector: {}\n | 8 warning spec.workloadSelector
empty labels | <host><static>workloadSelector: {labels: {}}\n | 8 warning spec.workloadSelector
empty key | <host><static>workloadSelector: {labels: {"": x}}\n | 8 error spec.workloadSelector.labels.
wildcard in the key | <host><static>workloadSelector: {labels: {"a*": x}}\n | 8 error spec.workloadSelector.labels.a*
wildcard in the value | <host><static>workloadSelector:\n  labels:\n    app: "x*"\n | 10 error spec.workloadSelector.labels.app
with endpoints | <host><static>workloadSelector: {labels: {app: x}}\nendpoints: [{address: 10.0.0.1}]\n | 9 error spec.endpoints
empty, with endpoints | <host><static>workloadSelector: {}\nendpoints: [{address: 10.0.0.1}]\n | 8 warning spec.workloadSelector; 9 error spec.endpoints
with NONE | <host><http>workloadSelector: {labels: {app: x}}\n | 7 warning spec.workloadSelector
with DNS | <host><http>resolution: DNS\nworkloadSelector: {labels: {app: x}}\n |
number as a value | <host><static>workloadSelector: {labels: {app: 1}}\n | 8 error spec.workloadSelector.labels.app
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Addresses, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
IPv4 and IPv6 | <host><static>addresses: [10.0.0.1, "2001:db8::1"]\n |
octet too large | <host><static>addresses: [10.0.0.1, 10.0.0.300]\n | 8 error spec.addresses[1] | 10.0.0.300
name | <host><static>addresses: [a.example.org]\n | 8 error spec.addresses[0]
CIDR with host bits | <host><static>addresses: [10.0.0.77/24]\n |
prefix too long | <host><static>addresses: [10.0.0.0/33]\n | 8 error spec.addresses[0]
two slashes | <host><static>addresses: [10.0.0.0/8/8]\n | 8 error spec.addresses[0]
CIDR with NONE | <host>addresses: [10.0.0.0/8]\n |
CIDR with DNS | <host><http>resolution: DNS\naddresses: [10.0.0.1, 10.0.0.0/8]\n | 8 error spec.addresses[1] | CIDR
single address with DNS | <host><http>resolution: DNS\naddresses: [10.0.0.1]\n |
full-length CIDR with DNS_ROUND_ROBIN | <host><http>resolution: DNS_ROUND_ROBIN\naddresses: [10.0.0.1/32]\n | 8 error spec.addresses[0]
)")),
                         case_name);

std::string ports(std::string_view list) {
  return kHost + "resolution: STATIC\nports:\n" + std::string(list);
}

INSTANTIATE_TEST_SUITE_P(Ports, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
two | <ports>- {number: 80, name: http, protocol: HTTP}\n- {number: 443, name: tls, protocol: TLS}\n |
null item | <ports>- {number: 80, name: http, protocol: HTTP}\n-\n | 9 error spec.ports[1]
same name | <ports>- {number: 80, name: http, protocol: HTTP}\n- {number: 81, name: http, protocol: HTTP}\n | 9 error spec.ports[1].name
same number | <ports>- {number: 80, name: http, protocol: HTTP}\n- {number: 80, name: other, protocol: HTTP}\n | 9 error spec.ports[1].number
number 0 | <ports>- {number: 0, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
number 1 | <ports>- {number: 1, name: http, protocol: HTTP}\n |
number 65535 | <ports>- {number: 65535, name: http, protocol: HTTP}\n |
number 65536 | <ports>- {number: 65536, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
negative number | <ports>- {number: -1, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
number out of all bounds | <ports>- {number: 99999999999999999999, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
fraction | <ports>- {number: 80.5, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
word as number | <ports>- {number: many, name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
quoted number | <ports>- {number: "80", name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
missing number | <ports>- {name: http, protocol: HTTP}\n | 8 error spec.ports[0].number
missing name | <ports>- {number: 80, protocol: HTTP}\n | 8 error spec.ports[0].name
name with a dot | <ports>- {number: 80, name: a.b, protocol: HTTP}\n | 8 error spec.ports[0].name
upper case name | <ports>- {number: 80, name: HTTP-1, protocol: HTTP}\n |
target port | <ports>- {number: 80, name: http, protocol: HTTP, targetPort: 8080}\n |
target port 0 | <ports>- {number: 80, name: http, protocol: HTTP, targetPort: 0}\n |
target port too large | <ports>- {number: 80, name: http, protocol: HTTP, targetPort: 65536}\n | 8 error spec.ports[0].targetPort
unknown protocol | <ports>- {number: 80, name: http, protocol: HTPP}\n | 8 error spec.ports[0].protocol | did you mean "HTTP"?
lower case protocol | <ports>- {number: 80, name: http, protocol: http2}\n |
no protocol | <ports>- {number: 80, name: http}\n |
every protocol | <ports>- {number: 1, name: a, protocol: tcp}\n- {number: 2, name: b, protocol: udp}\n- {number: 3, name: c, protocol: grpc}\n- {number: 4, name: d, protocol: grpc-web}\n- {number: 5, name: e, protocol: http}\n- {number: 6, name: f, protocol: http_proxy}\n- {number: 7, name: g, protocol: http2}\n- {number: 8, name: h, protocol: https}\n- {number: 9, name: i, protocol: tls}\n- {number: 10, name: j, protocol: mongo}\n- {number: 11, name: k, protocol: redis}\n- {number: 12, name: l, protocol: mysql}\n |
a list instead of a mapping | <ports>- [80, http]\n | 8 error spec.ports[0]
unknown field | <ports>- {number: 80, name: http, protocol: HTTP, targetport: 1}\n | 8 warning spec.ports[0].targetport | did you mean "targetPort"?
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(TcpWithoutAddresses, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
TCP and NONE | <host>ports: [{number: 1, name: a, protocol: TCP}]\n | 6 warning spec.ports[0].protocol
unset and NONE | <host>ports: [{number: 1, name: a}]\n | 6 warning spec.ports[0]
lower case tcp and NONE | <host>ports: [{number: 1, name: a, protocol: tcp}]\n |
TLS and NONE | <host>ports: [{number: 1, name: a, protocol: TLS}]\n |
TCP with an address | <host>addresses: [10.0.0.1]\nports: [{number: 1, name: a, protocol: TCP}]\n |
TCP that is allocated an address | <host>resolution: STATIC\nports: [{number: 1, name: a, protocol: TCP}]\n |
)")),
                         case_name);

std::string endpoints(std::string_view resolution, std::string_view list) {
  return kHost + "resolution: " + std::string(resolution) + "\n" + kHttp + "endpoints:\n" +
         std::string(list);
}

INSTANTIATE_TEST_SUITE_P(StaticEndpoints, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
none at all | <host><static> |
address and port | <endpoints STATIC>- {address: 10.0.0.1, ports: {http: 8080}}\n |
null | <endpoints STATIC>- address: 10.0.0.1\n-\n | 10 error spec.endpoints[1]
no address | <endpoints STATIC>- labels: {a: b}\n | 9 error spec.endpoints[0].address
network without address | <endpoints STATIC>- network: east\n | 9 warning spec.endpoints[0].address
name | <endpoints STATIC>- address: b.example.org\n | 9 error spec.endpoints[0].address | not an IP address
address with port | <endpoints STATIC>- address: 10.0.0.1:80\n | 9 error spec.endpoints[0].address
socket | <endpoints STATIC>- address: unix:///run/a.sock\n |
abstract socket | <endpoints STATIC>- address: unix://@a\n |
relative socket | <endpoints STATIC>- address: unix://run/a.sock\n | 9 error spec.endpoints[0].address
socket that is a directory | <endpoints STATIC>- address: unix:///run/\n | 9 error spec.endpoints[0].address
socket without name | <endpoints STATIC>- address: "unix://"\n | 9 error spec.endpoints[0].address
socket with ports | <endpoints STATIC>- {address: "unix:///a", ports: {http: 80}}\n | 9 error spec.endpoints[0].ports
socket of an entry with two ports | <host>resolution: STATIC\nports:\n- {number: 80, name: http, protocol: HTTP}\n- {number: 81, name: more, protocol: HTTP}\nendpoints: [{address: "unix:///a"}]\n | 10 error spec.endpoints[0].address
socket of an entry without ports | <host>resolution: STATIC\nendpoints: [{address: "unix:///a"}]\n | 7 error spec.endpoints[0].address
unknown port | <endpoints STATIC>- address: 10.0.0.1\n  ports: {other: 80}\n | 10 error spec.endpoints[0].ports.other
bad port number | <endpoints STATIC>- {address: 10.0.0.1, ports: {http: 0}}\n | 9 error spec.endpoints[0].ports.http
bad port name | <endpoints STATIC>- {address: 10.0.0.1, ports: {a_b: 80}}\n | 9 error spec.endpoints[0].ports.a_b
good labels | <endpoints STATIC>- {address: 10.0.0.1, labels: {example.org/App_1.x: "", b: c-1}}\n |
bad label key | <endpoints STATIC>- {address: 10.0.0.1, labels: {a/b/c: x}}\n | 9 error spec.endpoints[0].labels.a/b/c
bad label value | <endpoints STATIC>- {address: 10.0.0.1, labels: {a: "x y"}}\n | 9 error spec.endpoints[0].labels.a
weight | <endpoints STATIC>- {address: 10.0.0.1, weight: 4294967295}\n |
weight below zero | <endpoints STATIC>- {address: 10.0.0.1, weight: -1}\n | 9 error spec.endpoints[0].weight
unknown field | <endpoints STATIC>- {address: 10.0.0.1, wieght: 1}\n | 9 warning spec.endpoints[0].wieght | "weight"
string | <endpoints STATIC>- 10.0.0.1\n | 9 error spec.endpoints[0]
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(OtherResolutions, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
NONE with endpoints | <host>endpoints: [{address: 10.0.0.1}]\n | 6 error spec.endpoints
NONE with an empty list | <host>endpoints: []\n |
DNS and a wildcard without endpoints | hosts: [a.example.org, "*.example.org"]\n<http>resolution: DNS\n | 5 error spec.hosts[1]
DNS and a wildcard with endpoints | hosts: ["*.example.org"]\n<http>resolution: DNS\nendpoints: [{address: b.example.org}]\n |
DNS and a wildcard with a selector | hosts: ["*.example.org"]\n<http>resolution: DNS\nworkloadSelector: {labels: {app: x}}\n | 5 error spec.hosts[0]
DNS endpoint by address and by name | <endpoints DNS>- address: 10.0.0.1\n- address: b.example.org\n |
DNS endpoint that is a socket | <endpoints DNS>- address: unix:///a\n | 9 error spec.endpoints[0].address
DNS endpoint that is a wildcard | <endpoints DNS>- address: "*.example.org"\n | 9 error spec.endpoints[0].address
DNS endpoint with a network only | <endpoints DNS>- network: east\n | 9 error spec.endpoints[0].address
DNS endpoint with an unknown port | <endpoints DNS>- {address: b.example.org, ports: {other: 80}}\n | 9 error spec.endpoints[0].ports.other
DNS endpoint with a bad label | <endpoints DNS>- {address: b.example.org, labels: {a: "x y"}}\n | 9 error spec.endpoints[0].labels.a
DNS_ROUND_ROBIN with one endpoint | <endpoints DNS_ROUND_ROBIN>- address: b.example.org\n |
DNS_ROUND_ROBIN with two endpoints | <endpoints DNS_ROUND_ROBIN>- address: b.example.org\n- address: c.example.org\n | 8 error spec.endpoints
DNS_ROUND_ROBIN and a wildcard | hosts: ["*.example.org"]\n<http>resolution: DNS_ROUND_ROBIN\n | 5 error spec.hosts[0]
)")),
                         case_name);

const std::string kDynamic = "hosts: [\"*.example.org\"]\nresolution: DYNAMIC_DNS\n";

INSTANTIATE_TEST_SUITE_P(DynamicDns, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
partial wildcard | hosts: ["*api.example.org"]\nresolution: DYNAMIC_DNS\n |
no host | resolution: DYNAMIC_DNS\n | 4 error spec.hosts
host without wildcard | <host>resolution: DYNAMIC_DNS\n | 5 error spec.hosts[0]
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    DynamicDnsBuilt, ServiceEntryRules,
    testing::Values(
        SpecCase{"wildcard", kDynamic + "ports: [{number: 443, name: tls, protocol: TLS}]\n",
                 none()},
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

INSTANTIATE_TEST_SUITE_P(Spelling, ServiceEntryRules, testing::ValuesIn(cases_of(R"(
names of the .proto file | <host><static>export_to: [web]\nworkload_selector: {labels: {app: x}}\nsubject_alt_names: [spiffe://a]\n |
misspelt | <host><static>adresses: [10.0.0.1]\n | 8 warning spec.adresses | did you mean "addresses"?
unheard of | <host><static>somethingElseAltogether: 1\n | 8 warning spec.somethingElseAltogether | unknown field
)")),
                         case_name);

INSTANTIATE_TEST_SUITE_P(SpellingBuilt, ServiceEntryRules,
                         testing::Values(SpecCase{"both spellings",
                                                  exported("[web]") + "export_to: [web]\n",
                                                  {"9 error spec.export_to"}}),
                         case_name);

std::vector<SpecCase> cases_of(std::string_view table) {
  return rows(table, {{"<host>", kHost},
                      {"<http>", kHttp},
                      {"<static>", kStatic},
                      {"<ports>", ports("")},
                      {"<endpoints DNS>", endpoints("DNS", "")},
                      {"<endpoints DNS_ROUND_ROBIN>", endpoints("DNS_ROUND_ROBIN", "")},
                      {"<endpoints STATIC>", endpoints("STATIC", "")}});
}

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
