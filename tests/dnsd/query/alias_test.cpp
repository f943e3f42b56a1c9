// SPDX-License-Identifier: Apache-2.0
// Aliases and a registry that changes while the upstream is asked; tests/scenarios/alias has all
// other rules (docs/semantics-kubernetes.md, "ExternalName Services").
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

using AliasTest = QueryFixture;

TEST_F(AliasTest, RegistryThatChangesMeanwhileCounts) {
  be_authority();
  be_in("shop");
  load(R"(
apiVersion: v1
kind: Service
metadata: { name: out, namespace: shop }
spec: { type: ExternalName, externalName: back.example.org }
)");
  EXPECT_EQ(ask("out.shop. A"), "FORWARD back.example.org. A");
  load(R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: late, namespace: shop }
spec: { hosts: [target.example.org], addresses: [10.0.0.9], resolution: STATIC }
)");
  publish();
  upstream_.replies["back.example.org. A"] = {
      .answer = {"back.example.org. 60 CNAME target.example.org.",
                 "target.example.org. 60 A 192.0.2.4"}};
  upstream_.settle();
  EXPECT_EQ(summary(replies_.last),
            "out.shop. 5 CNAME back.example.org., back.example.org. 60 CNAME target.example.org., "
            "target.example.org. 30 A 10.0.0.9");
}

}  // namespace
}  // namespace meshdns::dnsd
