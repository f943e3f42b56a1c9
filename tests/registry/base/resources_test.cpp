// SPDX-License-Identifier: Apache-2.0
#include "registry/model/resources.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

TEST(ResourcesTest, SelectorMatchesWhenEveryLabelIsThere) {
  const Labels labels = {{"app", "api"}, {"tier", "web"}, {"zone", "a"}};
  EXPECT_TRUE(selects(Labels{}, labels));
  EXPECT_TRUE(selects(Labels{}, {}));
  EXPECT_TRUE(selects(Labels{{"app", "api"}, {"zone", "a"}}, labels));
  EXPECT_FALSE(selects(Labels{{"app", "other"}}, labels));
  EXPECT_FALSE(selects(Labels{{"app", "api"}, {"missing", ""}}, labels));
  EXPECT_FALSE(selects(Labels{{"app", "api"}}, {}));
}

TEST(ResourcesTest, KeyIsKindClusterNamespaceAndName) {
  EndpointSlice slice;
  slice.meta = {.name = "api-1", .ns = "shop", .cluster = "east", .network = {}, .labels = {}};
  EXPECT_EQ(key_of(slice), (ResourceKey{Kind::EndpointSlice, "east", "shop", "api-1"}));
  slice.kind = Kind::Endpoints;
  EXPECT_EQ(key_of(slice).kind, Kind::Endpoints);
  EXPECT_EQ(key_of(slice).to_string(), "Endpoints east:shop/api-1");
  EXPECT_EQ((ResourceKey{Kind::Namespace, "", "", "shop"}).to_string(), "Namespace shop");
}

TEST(ResourcesTest, GivesTheMetadataOfEveryKind) {
  Resource resource = Namespace{};
  meta_of(resource).name = "shop";
  EXPECT_EQ(std::get<Namespace>(resource).meta.name, "shop");
  EXPECT_EQ(to_string(kind_of(resource)), "Namespace");
  EXPECT_EQ(to_string(Resolution::DnsRoundRobin), "DNS_ROUND_ROBIN");
}

}  // namespace
}  // namespace meshdns::registry
