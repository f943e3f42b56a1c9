// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/watch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

const ServedKinds kToday = {{"endpointslices.discovery.k8s.io", "v1"}};

// "path?labels?fields" of each.
std::vector<std::string> plan(const WatchNeeds& needs, const ServedKinds& served) {
  std::vector<std::string> lines;
  for (const auto& planned : plan_watches(needs, served)) {
    const Collection& c = planned.collection;
    lines.push_back(c.path + (c.label_selector.empty() ? "" : " l:" + c.label_selector) +
                    (c.field_selector.empty() ? "" : " f:" + c.field_selector));
  }
  return lines;
}

TEST(WatchPlanTest, FollowsNoMoreThanNamesNeed) {
  EXPECT_THAT(
      plan({}, kToday),
      ElementsAre("/api/v1/namespaces", "/api/v1/services",
                  "/apis/discovery.k8s.io/v1/endpointslices l:service.kubernetes.io/headless",
                  "/apis/discovery.k8s.io/v1/endpointslices "
                  "l:!service.kubernetes.io/headless,endpointslice.kubernetes.io/"
                  "managed-by!=endpointslice-controller.k8s.io"));
}

TEST(WatchPlanTest, ListsSlicesWithoutTheLabelByTheNameOfTheirService) {
  WatchNeeds needs;
  needs.searched = {"shop", "db", 1};
  const std::vector<std::string> lines = plan(needs, kToday);
  EXPECT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines.back(),
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices "
            "l:!service.kubernetes.io/headless,"
            "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io,"
            "kubernetes.io/service-name=db");
}

TEST(WatchPlanTest, FollowsNodesOnlyForNearEndpoints) {
  const auto nodes = [](WatchNeeds needs) {
    std::vector<std::string> lines = plan(needs, kToday);
    std::erase_if(lines, [](const std::string& line) { return !line.contains("/nodes"); });
    return lines;
  };
  WatchNeeds needs;
  needs.node_name = "node-1";
  needs.client_pods = true;
  EXPECT_THAT(nodes(needs), ElementsAre());
  needs.node_places = true;
  EXPECT_THAT(nodes(needs), ElementsAre("/api/v1/nodes f:metadata.name=node-1"));
  needs.selected_pods = {"shop"};
  EXPECT_THAT(nodes(needs), ElementsAre("/api/v1/nodes"));
  needs.selected_pods = {};
  needs.node_name = "";
  EXPECT_THAT(nodes(needs), ElementsAre("/api/v1/nodes"));
  needs.client_pods = false;
  EXPECT_THAT(nodes(needs), ElementsAre());
}

TEST(WatchPlanTest, TakesTheVersionThatIsServed) {
  EXPECT_THAT(plan({}, {{"endpointslices.discovery.k8s.io", "v1beta1"},
                        {"serviceentries.networking.istio.io", "v1alpha3"}}),
              testing::IsSupersetOf(
                  {"/apis/discovery.k8s.io/v1beta1/endpointslices l:service.kubernetes.io/headless",
                   "/apis/networking.istio.io/v1alpha3/serviceentries"}));
}

TEST(WatchPlanTest, FallsBackToEndpoints) {
  EXPECT_THAT(plan({}, {}),
              ElementsAre("/api/v1/namespaces", "/api/v1/services", "/api/v1/endpoints"));
}

TEST(WatchPlanTest, FollowsVirtualServicesOnlyWhereTheyAreServed) {
  EXPECT_THAT(plan({}, kToday), Not(Contains(testing::HasSubstr("virtualservices"))));
  EXPECT_THAT(plan({}, {{"virtualservices.networking.istio.io", "v1"}}),
              Contains("/apis/networking.istio.io/v1/virtualservices"));
  EXPECT_TRUE(is_crd_of_interest("virtualservices.networking.istio.io"));
  for (const auto& planned :
       plan_watches(WatchNeeds{}, {{"virtualservices.networking.istio.io", "v1"}}))
    EXPECT_TRUE(planned.kind != Kind::VirtualService || !planned.is_required);
}

TEST(WatchPlanTest, FollowsTheConfigMapOfMeshConfigWhereIstioIs) {
  WatchNeeds needs;
  needs.istio_config_map = "istio-system/istio-canary";
  const ServedKinds with_istio = {{"sidecars.networking.istio.io", "v1"}};
  const std::string expected =
      "/api/v1/namespaces/istio-system/configmaps f:metadata.name=istio-canary";
  EXPECT_THAT(plan(needs, with_istio), Contains(expected));
  EXPECT_THAT(plan(needs, kToday), Not(Contains(testing::HasSubstr("configmaps"))));
  EXPECT_THAT(plan({}, with_istio), Not(Contains(testing::HasSubstr("configmaps"))));
  needs.namespaces = {"a"};
  EXPECT_THAT(plan(needs, with_istio), Contains(expected));
  for (const auto& planned : plan_watches(needs, with_istio)) {
    // As the Namespace object of the root namespace, whose label is a network.
    EXPECT_EQ(planned.is_optional,
              planned.kind == Kind::ConfigMap || planned.label == "namespaces[istio-system]");
    EXPECT_TRUE(planned.kind != Kind::ConfigMap || !planned.is_required);
  }
}

TEST(WatchPlanTest, FollowsTheKindsThatGiveNamesToGatewaysOnlyIfTheyAreWanted) {
  const ServedKinds served = {{"gateways.gateway.networking.k8s.io", "v1"},
                              {"httproutes.gateway.networking.k8s.io", "v1beta1"},
                              {"ingresses.networking.k8s.io", "v1"}};
  EXPECT_THAT(plan({}, served), Not(Contains(testing::HasSubstr("networking.k8s.io"))));
  WatchNeeds needs;
  needs.gateway_kinds = {Kind::Gateway, Kind::HttpRoute, Kind::TlsRoute, Kind::Service};
  EXPECT_THAT(plan(needs, served),
              testing::IsSupersetOf({"/apis/gateway.networking.k8s.io/v1/gateways",
                                     "/apis/gateway.networking.k8s.io/v1beta1/httproutes"}));
  EXPECT_THAT(plan(needs, served), Not(Contains(testing::HasSubstr("ingresses"))));
  EXPECT_THAT(plan(needs, kToday), Not(Contains(testing::HasSubstr("networking.k8s.io"))))
      << "a server without the CRDs";
  EXPECT_TRUE(is_crd_of_interest("grpcroutes.gateway.networking.k8s.io"));
}

TEST(WatchPlanTest, FollowsMultiClusterKindsOfEitherGroup) {
  EXPECT_THAT(plan({}, {{"serviceexports.multicluster.x-k8s.io", "v1alpha1"},
                        {"serviceimports.net.gke.io", "v1"}}),
              testing::IsSupersetOf({"/apis/multicluster.x-k8s.io/v1alpha1/serviceexports",
                                     "/apis/net.gke.io/v1/serviceimports"}));
}

TEST(WatchPlanTest, FollowsAllSlicesWhenEmptyServicesAreHidden) {
  WatchNeeds needs;
  needs.all_slices = true;
  EXPECT_THAT(plan(needs, kToday), Contains("/apis/discovery.k8s.io/v1/endpointslices"));
}

TEST(WatchPlanTest, FollowsGivenNamespacesAlone) {
  WatchNeeds needs;
  needs.namespaces = {"a", "b"};
  EXPECT_THAT(
      plan(needs, {{"sidecars.networking.istio.io", "v1"}}),
      ElementsAre("/api/v1/namespaces f:metadata.name=a", "/api/v1/namespaces f:metadata.name=b",
                  "/api/v1/namespaces f:metadata.name=istio-system",
                  "/api/v1/namespaces/a/services", "/api/v1/namespaces/b/services",
                  "/api/v1/namespaces/a/endpoints", "/api/v1/namespaces/b/endpoints",
                  "/apis/networking.istio.io/v1/namespaces/a/sidecars",
                  "/apis/networking.istio.io/v1/namespaces/b/sidecars",
                  "/apis/networking.istio.io/v1/namespaces/istio-system/sidecars"));
}

TEST(WatchPlanTest, FollowsThePodsOfThisNodeForIdentity) {
  WatchNeeds needs;
  needs.client_pods = true;
  needs.node_name = "n1";
  EXPECT_THAT(plan(needs, kToday),
              Contains("/api/v1/pods f:spec.nodeName=n1,status.phase!=Succeeded,"
                       "status.phase!=Failed"));
  needs.node_name.clear();
  EXPECT_THAT(plan(needs, kToday),
              Contains("/api/v1/pods f:status.phase!=Succeeded,status.phase!=Failed"));
}

TEST(WatchPlanTest, FollowsNoPodTwice) {
  WatchNeeds needs;
  needs.client_pods = true;
  needs.node_name = "n1";
  needs.selected_pods = {"shop"};
  EXPECT_THAT(plan(needs, kToday),
              Contains("/api/v1/namespaces/shop/pods "
                       "f:status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!=n1"));
  needs.all_pods = true;
  EXPECT_THAT(plan(needs, kToday), Not(Contains(testing::HasSubstr("/shop/pods"))));
}

TEST(WatchPlanTest, GivesEveryCollectionANameOfItsOwn) {
  WatchNeeds needs;
  needs.namespaces = {"a", "b"};
  needs.client_pods = true;
  needs.node_name = "n1";
  needs.selected_pods = {"a"};
  std::set<std::string> labels;
  const auto planned = plan_watches(needs, kToday);
  for (const auto& p : planned) labels.insert(p.label);
  EXPECT_EQ(labels.size(), planned.size());
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
