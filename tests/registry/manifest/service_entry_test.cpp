// SPDX-License-Identifier: Apache-2.0
// ServiceEntry: the fields that are read, and how large it may be.
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

const std::string kHost = "hosts: [a.example.org]\n";
const std::string kStatic =
    "resolution: STATIC\nports: [{number: 80, name: http, protocol: HTTP}]\n";

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

TEST(ServiceEntryTest, ListsAreBounded) {
  const std::string unknown_port = "endpoints:\n- {address: 10.0.0.1, ports: {p257: 1}}\n";
  const std::vector<FindingCase> cases = {
      {"256 hosts", many_hosts(256) + kStatic, {}},
      {"257 hosts", many_hosts(257) + kStatic, {"5 error spec.hosts"}},
      {"256 addresses", many_addresses(256) + kStatic, {}},
      {"257 addresses", many_addresses(257) + kStatic, {"6 error spec.addresses"}},
      {"4096 endpoints", many_endpoints(4096) + kStatic, {}},
      {"4097 endpoints", many_endpoints(4097) + kStatic, {"6 error spec.endpoints"}},
      {"256 ports", many_ports(256) + "resolution: STATIC\n", {}},
      {"257 ports", many_ports(257) + "resolution: STATIC\n", {"6 error spec.ports"}},
      {"257 ports, one error",
       many_ports(257) + "resolution: STATIC\n" + unknown_port,
       {"6 error spec.ports"}},
  };
  for (const FindingCase& c : cases) expect_findings(c, entry(c.text));
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
