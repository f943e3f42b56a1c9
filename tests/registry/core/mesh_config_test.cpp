// SPDX-License-Identifier: Apache-2.0
// Istio's MeshConfig: the merging of its settings with those of the configuration, and its effect
// on the registry.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "registry/model/mesh_settings.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

MeshConfig full_mesh_config() {
  MeshConfig config;
  config.root_namespace = "mesh-root";
  config.default_service_export_to = {"."};
  config.service_entry_visibility = {Visibility::Namespace, {}};
  set_outbound_policy(config.meta, OutboundPolicy::RegistryOnly);
  return config;
}

TEST(EffectiveSettingsTest, AreThoseOfTheConfigurationWithoutMeshConfig) {
  MeshSettings configured;
  configured.root_namespace = "other";
  EXPECT_EQ(effective_settings(configured, nullptr), configured);
  const MeshConfig empty;
  EXPECT_EQ(effective_settings(configured, &empty), configured);
}

TEST(EffectiveSettingsTest, TakeAllThatMeshConfigSets) {
  const MeshConfig config = full_mesh_config();
  const MeshSettings settings = effective_settings({}, &config);
  EXPECT_EQ(settings.root_namespace, "mesh-root");
  EXPECT_EQ(settings.default_export_to, ExportTo{"."});
  EXPECT_EQ(settings.service_entry_visibility.default_visibility, Visibility::Namespace);
  EXPECT_EQ(settings.origins.root_namespace, SettingOrigin::MeshConfig);
  EXPECT_EQ(settings.origins.default_export_to, SettingOrigin::MeshConfig);
  EXPECT_EQ(settings.origins.service_entry_visibility, SettingOrigin::MeshConfig);
  EXPECT_EQ(settings.outbound_policy, OutboundPolicy::RegistryOnly);
  EXPECT_EQ(settings.origins.outbound_policy, SettingOrigin::MeshConfig);
}

TEST(EffectiveSettingsTest, KeepEachKeyThatTheConfigurationSets) {
  const MeshConfig config = full_mesh_config();
  MeshSettings configured;
  configured.default_export_to = {"*"};
  configured.origins.default_export_to = SettingOrigin::Configuration;
  const MeshSettings settings = effective_settings(configured, &config);
  EXPECT_EQ(settings.default_export_to, ExportTo{"*"});
  EXPECT_EQ(settings.origins.default_export_to, SettingOrigin::Configuration);
  EXPECT_EQ(settings.root_namespace, "mesh-root");
}

TEST(EffectiveSettingsTest, NameTheConfigMap) {
  MeshSettings settings;
  settings.istio_config_map = "istio-system/istio-canary";
  EXPECT_TRUE(is_istio_config_map(settings, "istio-system", "istio-canary"));
  EXPECT_FALSE(is_istio_config_map(settings, "istio-system", "istio"));
  EXPECT_FALSE(is_istio_config_map(settings, "istio-syste", "/istio-canary"));
  EXPECT_EQ(describe_origin(settings, SettingOrigin::MeshConfig),
            "ConfigMap istio-system/istio-canary");
  EXPECT_EQ(describe_origin(settings, SettingOrigin::Configuration), "the configuration");
  EXPECT_EQ(describe_origin(settings, SettingOrigin::Default), "default");
  settings.istio_config_map = "";
  EXPECT_FALSE(is_istio_config_map(settings, "", ""));
}

constexpr std::string_view kEntryOfShop = R"(
ServiceEntry shop/api
spec: { hosts: [api.example.org], addresses: [10.0.0.1], resolution: STATIC }
)";

std::string config_map(const std::string& mesh, const std::string& name = "istio") {
  return "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: " + name +
         ", namespace: istio-system }\ndata: { mesh: '" + mesh + "' }\n";
}

constexpr const char* kSeen = "exact vips 10.0.0.1";

TEST(MeshConfigTest, ChangesAnswersInTheSameCommitAndOnce) {
  TestRegistry registry;
  registry.be_in("web");
  registry.load(kEntryOfShop);
  EXPECT_EQ(registry.ask("api.example.org"), kSeen);
  std::size_t published = 0;
  registry.registry().set_publish([&](const std::shared_ptr<const Snapshot>& snapshot) {
    ++published;
    EXPECT_EQ(snapshot->settings->default_export_to, ExportTo{"."});
  });
  const Changes summary = registry.load(config_map(R"(defaultServiceExportTo: ["."])"));
  EXPECT_TRUE(summary.mesh_config_changed);
  EXPECT_EQ(summary.changed_resources, 1U);
  EXPECT_EQ(published, 1U);
  EXPECT_EQ(registry.ask("api.example.org"), "none");
  registry.be_in("shop");
  EXPECT_EQ(registry.ask("api.example.org"), kSeen);
}

// Istio's order: the field of the Sidecar that applies, as a whole, else that of the mesh.
TEST(MeshConfigTest, HasTheOutboundPolicyOfClientsWhoseSidecarHasNone) {
  TestRegistry registry;
  const auto is_registry_only = [&](std::string ns, bool is_sidecar = true) {
    ClientIdentity identity;
    identity.ns = std::move(ns);
    identity.narrowed_by_sidecars = is_sidecar;
    registry.be(identity);
    return registry.snapshot().default_client->is_registry_only;
  };
  const auto sidecar = [](const std::string& name, const std::string& policy) {
    return "Sidecar " + name + "/default\nspec: { egress: [{ hosts: [\"*/*\"] }]" + policy + " }\n";
  };
  registry.load(sidecar("open", ", outboundTrafficPolicy: { mode: ALLOW_ANY }") +
                sidecar("closed", ", outboundTrafficPolicy: { mode: REGISTRY_ONLY }") +
                sidecar("silent", ""));
  EXPECT_TRUE(is_registry_only("closed"));
  EXPECT_FALSE(is_registry_only("closed", false)) << "gateways and waypoints obey no Sidecar";
  for (const char* const ns : {"open", "silent", "none"}) EXPECT_FALSE(is_registry_only(ns)) << ns;

  registry.load(config_map("outboundTrafficPolicy: { mode: REGISTRY_ONLY }"));
  EXPECT_FALSE(is_registry_only("open"));
  for (const char* const ns : {"closed", "silent", "none"}) EXPECT_TRUE(is_registry_only(ns)) << ns;
  EXPECT_FALSE(is_registry_only("none", false));
  EXPECT_FALSE(registry.snapshot().public_client->is_registry_only) << "nobody knows its proxy";

  registry.load(sidecar("istio-system", ", outboundTrafficPolicy: { mode: ALLOW_ANY }"));
  EXPECT_FALSE(is_registry_only("none")) << "the Sidecar of the root namespace applies";
  EXPECT_TRUE(is_registry_only("silent")) << "another Sidecar applies, which leaves it to the mesh";
}

TEST(MeshConfigTest, CountsNoMoreOnceTheConfigMapIsDeleted) {
  TestRegistry registry;
  registry.be_in("web");
  registry.load(std::string(kEntryOfShop) + "---\n" +
                config_map(R"(defaultServiceExportTo: ["."])"));
  EXPECT_EQ(registry.ask("api.example.org"), "none");
  EXPECT_TRUE(registry.remove({Kind::ConfigMap, "", "istio-system", "istio"}).mesh_config_changed);
  EXPECT_EQ(registry.ask("api.example.org"), kSeen);
  EXPECT_EQ(registry.snapshot().settings->origins, SettingOrigins());
}

TEST(MeshConfigTest, DerivesNothingAgainWhereNoSettingChanges) {
  TestRegistry registry;
  registry.load(std::string(kEntryOfShop) + "---\n" +
                config_map(R"(defaultServiceExportTo: ["."])"));
  const Changes same = registry.load(config_map(R"(defaultServiceExportTo: [.])"));
  EXPECT_FALSE(same.mesh_config_changed);
  const Changes other = registry.load(config_map("rootNamespace: elsewhere", "istio-canary"));
  EXPECT_FALSE(other.mesh_config_changed);
  EXPECT_EQ(other.changed_hosts, 0U);
}

TEST(MeshConfigTest, IsReadOutsideOfTheServedNamespaces) {
  MeshSettings settings;
  settings.namespaces = {"shop", "web"};
  TestRegistry registry(settings);
  registry.be_in("web");
  registry.load(std::string(kEntryOfShop) + "---\n" +
                config_map(R"(defaultServiceExportTo: ["."])"));
  EXPECT_EQ(registry.ask("api.example.org"), "none");
}

TEST(MeshConfigTest, FollowsAChangeOfTheConfigurationsChoice) {
  TestRegistry registry;
  registry.be_in("web");
  registry.load(std::string(kEntryOfShop) + "---\n" +
                config_map(R"(defaultServiceExportTo: ["."])", "istio-canary"));
  EXPECT_EQ(registry.ask("api.example.org"), kSeen);
  MeshSettings settings;
  settings.istio_config_map = "istio-system/istio-canary";
  registry.registry().set_settings(settings);
  EXPECT_EQ(registry.ask("api.example.org"), "none");
  settings.istio_config_map = "";
  registry.registry().set_settings(settings);
  EXPECT_EQ(registry.ask("api.example.org"), kSeen);
  // The settings of the configuration stay those of set_settings().
  registry.load(config_map(R"(defaultServiceExportTo: ["~"])", "istio-canary"));
  EXPECT_EQ(registry.snapshot().settings->istio_config_map, "");
}

// One mesh has one set of settings.
TEST(MeshConfigTest, IsThatOfTheFirstClusterWhereSeveralHaveOne) {
  TestRegistry registry;
  for (const char* cluster : {"b", "a"}) {
    MeshConfig config;
    config.meta.name = "istio";
    config.meta.ns = "istio-system";
    config.meta.cluster = cluster;
    config.root_namespace = std::string("root-") + cluster;
    registry.add({config});
  }
  EXPECT_EQ(registry.snapshot().settings->root_namespace, "root-a");
  registry.remove({Kind::ConfigMap, "a", "istio-system", "istio"});
  EXPECT_EQ(registry.snapshot().settings->root_namespace, "root-b");
}

TEST(MeshConfigTest, IsNamedWhereItHidesAService) {
  TestRegistry registry;
  registry.be_in("web");
  registry.load(std::string(kEntryOfShop) + "---\n" +
                config_map(R"(defaultServiceExportTo: ["."])"));
  Trace trace;
  registry.view().lookup("api.example.org", &trace);
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps.front().verdict,
            "hidden: exportTo does not include namespace web, only shop; it has no exportTo: "
            "default_export_to (ConfigMap istio-system/istio) applies");
}

// Reading an object costs what it has endpoints, and a client may ask for an explanation.
TEST(MeshConfigTest, IsNamedWithAConditionWhereItHidesALargeService) {
  TestRegistry registry;
  registry.be_in("web");
  std::string endpoints;
  for (int i = 0; i < 250; ++i)
    endpoints +=
        (i == 0 ? "" : ", ") + std::string("{ address: 10.0.0.") + std::to_string(i) + " }";
  registry.load(
      "ServiceEntry shop/large\nspec: { hosts: [large.example.org], resolution: STATIC, endpoints: "
      "[" +
      endpoints + "] }\n---\n" + config_map(R"(defaultServiceExportTo: ["."])"));
  Trace trace;
  registry.view().lookup("large.example.org", &trace);
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps.front().verdict,
            "hidden: exportTo does not include namespace web, only shop; default_export_to "
            "(ConfigMap istio-system/istio) applies if it has no exportTo");
}

}  // namespace
}  // namespace meshdns::registry
