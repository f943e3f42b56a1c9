// SPDX-License-Identifier: Apache-2.0
// WorkloadEntry and Sidecar: the fields that are read.
#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

std::string sidecar(std::string_view spec) {
  return "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
         "metadata: {name: s, namespace: shop}\nspec:\n" +
         indent(spec, 2);
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

TEST(SidecarTest, HasAnOutboundPolicyOnlyWhereItSaysSo) {
  const auto policy = [](const std::string& spec) {
    return outbound_policy_of(
        only<Sidecar>(read(sidecar("egress: [{hosts: [\"*/*\"]}]\n" + spec))).meta);
  };
  EXPECT_EQ(policy(""), std::nullopt);
  EXPECT_EQ(policy("outboundTrafficPolicy: {mode: ALLOW_ANY}\n"), OutboundPolicy::AllowAny);
  EXPECT_EQ(policy("outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"), OutboundPolicy::RegistryOnly);
  // The first value of Istio's enumeration.
  EXPECT_EQ(policy("outboundTrafficPolicy: {}\n"), OutboundPolicy::RegistryOnly);
}

}  // namespace
}  // namespace meshdns::registry
