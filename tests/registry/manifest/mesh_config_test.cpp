// SPDX-License-Identifier: Apache-2.0
// ConfigMaps with Istio's MeshConfig.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

std::string with_mesh(const std::string& mesh, const std::string& name = "istio") {
  return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name +
         "\n  namespace: istio-system\ndata:\n  mesh: |\n" + indent(mesh, 4);
}

MeshConfig mesh_of(const Collected& read) {
  EXPECT_EQ(read.resources.size(), 1U) << read.all();
  if (read.resources.size() != 1) return {};
  return std::get<MeshConfig>(read.resources.front().resource);
}

TEST(MeshConfigManifestTest, HasTheFieldsThatChangeNames) {
  const Collected collected = read(with_mesh(R"(accessLogFile: /dev/stdout
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
  unknown: { key: [1, 2] }
defaultServiceExportTo: [".", monitoring]
rootNamespace: mesh-root
serviceEntryVisibility:
  defaultVisibility: NONE
  policies:
  - visibility: NAMESPACE
    matchingRules:
    - namespaceSelector:
        matchLabels: { team: payments }
        matchExpressions: [{ key: tier, operator: NotIn, values: [dev] }, { key: x, operator: Exists }]
  - visibility: PUBLIC
trustDomain: cluster.local)"));
  EXPECT_EQ(collected.all(), "");
  const MeshConfig config = mesh_of(collected);
  EXPECT_EQ(config.meta.name, "istio");
  EXPECT_EQ(config.meta.ns, "istio-system");
  EXPECT_EQ(config.root_namespace, "mesh-root");
  EXPECT_EQ(config.default_service_export_to, (ExportTo{".", "monitoring"}));
  using Operator = LabelRequirement::Operator;
  const LabelSelector selector{{{"team", "payments"}},
                               {{"tier", Operator::NotIn, {"dev"}}, {"x", Operator::Exists, {}}}};
  const ServiceEntryVisibility expected{
      Visibility::None, {{Visibility::Namespace, {selector}}, {Visibility::Public, {}}}};
  EXPECT_EQ(config.service_entry_visibility, expected);
}

TEST(MeshConfigManifestTest, HasTheOutboundPolicyOfTheMesh) {
  const auto policy = [](const std::string& mesh) {
    const Collected collected = read(with_mesh(mesh));
    EXPECT_EQ(collected.all(), "") << mesh;
    return outbound_policy_of(mesh_of(collected).meta);
  };
  EXPECT_EQ(policy("outboundTrafficPolicy: { mode: REGISTRY_ONLY }"), OutboundPolicy::RegistryOnly);
  EXPECT_EQ(policy("outboundTrafficPolicy: { mode: ALLOW_ANY }"), OutboundPolicy::AllowAny);
  EXPECT_EQ(policy("outboundTrafficPolicy: { mode: ALLOW_ANY_DYNAMIC_DNS, tls: { mode: SIMPLE } }"),
            OutboundPolicy::AllowAny);
  EXPECT_EQ(policy("outbound_traffic_policy: {}"), OutboundPolicy::RegistryOnly);
}

TEST(MeshConfigManifestTest, SetsNothingThatIsAbsentOrEmpty) {
  for (const char* const mesh :
       {"", "{}", "accessLogFile: ''", "rootNamespace: ''", "rootNamespace: null",
        "defaultServiceExportTo: []", "serviceEntryVisibility: null", "outboundTrafficPolicy: null",
        "# nothing"}) {
    const Collected collected = read(with_mesh(mesh));
    EXPECT_EQ(collected.all(), "") << mesh;
    MeshConfig expected;
    expected.meta = mesh_of(collected).meta;
    EXPECT_EQ(mesh_of(collected), expected) << mesh;
  }
}

// As istiod's own reader of JSON.
TEST(MeshConfigManifestTest, MayHaveNamesInSnakeCaseAndBeJson) {
  const MeshConfig config =
      mesh_of(read(with_mesh(R"({"default_service_export_to": ["~"], "root_namespace": "r"})")));
  EXPECT_EQ(config.root_namespace, "r");
  EXPECT_EQ(config.default_service_export_to, ExportTo{"~"});
}

TEST(MeshConfigManifestTest, IsReadOnlyFromConfigMapsOfIstio) {
  const std::string broken = "{ this is: no YAML";
  for (const char* const name : {"other", "istio-sidecar-injector2", "my-istio", "istiox"}) {
    std::string text = with_mesh(broken, name);
    if (std::string_view(name) == "istio-sidecar-injector2")
      text.replace(text.find("mesh:"), 5, "values:");
    const Collected collected = read(text);
    EXPECT_EQ(collected.all(), "") << name;
    EXPECT_TRUE(collected.resources.empty() && collected.refused.empty()) << name;
  }
  EXPECT_EQ(mesh_of(read(with_mesh("{}", "istio-1-30-0"))).meta.name, "istio-1-30-0");
  // A ConfigMap that is named `istio` and has no such key sets nothing.
  EXPECT_EQ(mesh_of(read("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio}}")).meta.name,
            "istio");
}

TEST(MeshConfigManifestTest, WarnsOfUnknownFieldsInThoseThatAreRead) {
  const Collected collected =
      read(with_mesh("unknown: 1\nserviceEntryVisibility: { defaultVisibilty: NONE }"));
  EXPECT_EQ(mesh_of(collected).service_entry_visibility, ServiceEntryVisibility());
  EXPECT_EQ(collected.places(), std::vector<std::string>{
                                    "7 warning data.mesh.serviceEntryVisibility.defaultVisibilty"});
}

TEST(MeshConfigManifestTest, IsNoYamlWhereTheValueIsNoText) {
  EXPECT_TRUE(
      read("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio}, data: {mesh: {a: 1}}}")
          .says("data.mesh: expected a string, got a mapping"));
  EXPECT_TRUE(read("{apiVersion: v1, kind: ConfigMap, metadata: {name: istio}, data: [mesh]}")
                  .says("data: expected a mapping, got a list"));
}

}  // namespace
}  // namespace meshdns::registry
