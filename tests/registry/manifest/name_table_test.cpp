// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/name_table.hpp"

#include <gtest/gtest.h>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

Collected read_table(std::string_view text) {
  Collected collected;
  collected.result =
      read_name_table(text, {.path = "ndsz.json", .cluster = "east", .network = {}}, collected);
  return collected;
}

TEST(NameTableTest, ReadsEveryHost) {
  const Collected collected = read_table(R"({"table": {
    "API.example.org.": {"ips": ["10.0.0.7", "2001:db8::7"], "registry": "External"},
    "*.wild.example.org": {"ips": []},
    "web.shop.svc.cluster.local": {"ips": ["10.96.0.1"], "registry": "Kubernetes",
      "shortname": "web", "namespace": "shop", "altHosts": ["Web.shop.svc"]}}})");
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.all(), "");
  ASSERT_EQ(collected.resources.size(), 3U);
  const auto& api = std::get<NameTableEntry>(collected.resources[0].resource);
  EXPECT_EQ(api.meta.name, "api.example.org");
  EXPECT_EQ(api.meta.cluster, "east");
  EXPECT_EQ(api.ips.size(), 2U);
  EXPECT_FALSE(api.kubernetes);
  const auto& web = std::get<NameTableEntry>(collected.resources[2].resource);
  EXPECT_TRUE(web.kubernetes);
  EXPECT_EQ(web.short_name, "web");
  EXPECT_EQ(web.meta.ns, "shop");
  EXPECT_EQ(web.alt_hosts, std::vector<std::string>{"web.shop.svc"});
  EXPECT_EQ(collected.resources[2].line, 4U);
}

TEST(NameTableTest, ReadsTheDumpOfIstiodAndProtoNames) {
  const Collected collected = read_table(
      R"({"configs": [{"@type": "type.googleapis.com/istio.networking.nds.v1.NameTable",
          "table": {"a.example.org": {"ips": ["10.0.0.1"], "alt_hosts": ["b.example.org"]}}}]})");
  EXPECT_EQ(collected.all(), "");
  EXPECT_EQ(only<NameTableEntry>(collected).alt_hosts, std::vector<std::string>{"b.example.org"});
  EXPECT_TRUE(read_table(R"({"table": {}})").result);
}

TEST(NameTableTest, AnInvalidHostDoesNotAffectOthers) {
  const Collected collected = read_table(
      "{\"table\": {\n\"a_b.example.org\": {\"ips\": []},\n"
      "\"b.example.org\": {\"ips\": [\"x\"]},\n"
      "\"c.example.org\": 7,\n"
      "\"d.example.org\": {\"ips\": [], \"ip\": []}}}");
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.places(),
            (std::vector<std::string>{"2 error ", "3 warning b.example.org.ips[0]",
                                      "3 error b.example.org.ips", "4 error c.example.org",
                                      "5 warning d.example.org.ip"}));
  EXPECT_EQ(collected.refused.size(), 3U);
  EXPECT_EQ(only<NameTableEntry>(collected).meta.name, "d.example.org");
}

TEST(NameTableTest, AHostKeepsItsGoodAddresses) {
  const Collected collected = read_table(
      "{\"table\": {\n\"a.example.org\": {\"ips\": [\"10.0.0.1\", \"10.0.0\", \"::\", "
      "\"fd00::1\"]}}}");
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.places(), (std::vector<std::string>{"2 warning a.example.org.ips[1]",
                                                          "2 warning a.example.org.ips[2]"}));
  EXPECT_EQ(only<NameTableEntry>(collected).ips,
            (std::vector<IpAddress>{*IpAddress::parse("10.0.0.1"), *IpAddress::parse("fd00::1")}));
}

TEST(NameTableTest, TheUnspecifiedAddressIsNone) {
  const Collected collected = read_table(R"({"table": {"a.example.org": {"ips": ["0.0.0.0"]}}})");
  EXPECT_TRUE(collected.refused.empty());
  EXPECT_TRUE(only<NameTableEntry>(collected).ips.empty());
}

TEST(NameTableTest, TextThatIsNotATableIsAnError) {
  for (const std::string_view text :
       {"", "{}", "[]", "{\"table\": []}", "{\"table\": {\"a.example.org\": {}", "table: {}",
        "{\"table\": {\"a.b\": {}, \"a.b\": {}}}", "{\"configs\": [{}]}", "{\"configs\": 7}"}) {
    const Collected collected = read_table(text);
    EXPECT_FALSE(collected.result) << text;
    EXPECT_EQ(collected.findings.size(), 1U) << text;
    EXPECT_TRUE(collected.resources.empty()) << text;
  }
}

}  // namespace
}  // namespace meshdns::registry
