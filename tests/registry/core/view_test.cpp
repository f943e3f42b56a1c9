#include "registry/view/view.hpp"

#include <gtest/gtest.h>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr const char* kTwoHosts = R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: one, namespace: shop }
spec: { hosts: [one.example.org], addresses: [192.0.2.1], resolution: STATIC }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: two, namespace: shop }
spec: { hosts: [two.example.org], addresses: [192.0.2.2], resolution: STATIC }
)";

TEST(ViewTest, TakesTheLikelyEntryForItsOwnNameOnly) {
  TestRegistry registry;
  registry.load(kTwoHosts);
  const auto snapshot = registry.registry().current();
  const HostEntry* const likely = snapshot->find_host("one.example.org");
  ASSERT_NE(likely, nullptr);
  const View view(*snapshot, *snapshot->default_client, likely);
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("one.example.org")), "exact vips 192.0.2.1");
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("two.example.org")), "exact vips 192.0.2.2");
  EXPECT_EQ(TestRegistry::describe(view, view.lookup("three.example.org")), "none");
}

}  // namespace
}  // namespace meshdns::registry
