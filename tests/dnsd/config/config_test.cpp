// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NodeIdTest, ReadsTheFourParts) {
  const auto id = parse_node_id("sidecar~10.60.1.6~web-1.shop~Shop.svc.cluster.local.");
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id->type, "sidecar");
  EXPECT_THAT(id->ips, ElementsAre(*IpAddress::parse("10.60.1.6")));
  EXPECT_EQ(id->ns(), "shop");
  EXPECT_EQ(id->to_string(), "sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local");
}

TEST(NodeIdTest, TakesTheNamespaceFromTheDomainBeforeTheId) {
  EXPECT_EQ(parse_node_id("router~2001:db8::1~gw.istio-system~edge.svc.cluster.local")->ns(),
            "edge");
  EXPECT_EQ(parse_node_id("sidecar~10.0.0.1~web.v1.shop~")->ns(), "shop");
  EXPECT_EQ(parse_node_id("sidecar~10.0.0.1~web.v1.shop~local")->ns(), "shop");
  EXPECT_EQ(parse_node_id("sidecar~10.0.0.1~web~")->ns(), "");
}

TEST(NodeIdTest, ItsFamiliesAreThoseOfItsAddresses) {
  const auto families = [](std::string_view text) { return parse_node_id(text)->families(); };
  EXPECT_THAT(families("sidecar~10.0.0.1~web.shop~"), ElementsAre(IpFamily::IPv4));
  EXPECT_THAT(families("sidecar~fd00::1~web.shop~"), ElementsAre(IpFamily::IPv6));
  EXPECT_THAT(families("sidecar~fd00::1,10.0.0.1~web.shop~"),
              ElementsAre(IpFamily::IPv4, IpFamily::IPv6));
  EXPECT_EQ(parse_node_id("sidecar~fd00::1,10.0.0.1~web.shop~")->to_string(),
            "sidecar~fd00::1,10.0.0.1~web.shop~");
}

TEST(NodeIdTest, ItsDomainGivesASearchList) {
  const auto search = [](std::string_view text) { return parse_node_id(text)->search(); };
  EXPECT_THAT(search("sidecar~10.0.0.1~web.shop~shop.svc.corp.example"),
              ElementsAre("shop.svc.corp.example", "svc.corp.example", "corp.example"));
  EXPECT_THAT(search("sidecar~10.0.0.1~web.shop~vms.corp.example"),
              ElementsAre("vms.corp.example"));
  EXPECT_TRUE(search("sidecar~10.0.0.1~web.shop~local").empty());
  EXPECT_TRUE(search("sidecar~10.0.0.1~web.shop~").empty());
}

TEST(NodeIdTest, ErrorsNameTheInvalidPart) {
  struct Case {
    std::string_view text;
    std::string_view message;
  };
  for (const auto& [text, message] : {Case{"", "four parts"},
                                      {"sidecar~10.0.0.1~web.shop", "four parts"},
                                      {"sidecar~10.0.0.1~web.shop~a.b~c", "four parts"},
                                      {"proxy~10.0.0.1~web.shop~a.b", "proxy type"},
                                      {"sidecar~10.0.0~web.shop~a.b", "not an IP address"},
                                      {"sidecar~~web.shop~a.b", "not an IP address"},
                                      {"sidecar~10.0.0.1,~web.shop~a.b", "not an IP address"},
                                      {"sidecar~10.0.0.1~~a.b", "empty ID"},
                                      {"sidecar~10.0.0.1~web.shop~a..b", "not a domain"}}) {
    const auto id = parse_node_id(text);
    ASSERT_FALSE(id) << text;
    EXPECT_THAT(id.error().message, HasSubstr(message)) << text;
  }
}

TEST(UpstreamServerTest, PrintsTheFormWithPort) {
  struct Case {
    std::string_view text;
    std::string_view expected;
  };
  for (const auto& [text, expected] :
       {Case{"10.0.0.53", "10.0.0.53:53"},
        {"10.0.0.53:5353", "10.0.0.53:5353"},
        {"2001:db8::1", "[2001:db8::1]:53"},
        {"[2001:db8::1]:5353", "[2001:db8::1]:5353"},
        {"tls://9.9.9.9#Dns.Quad9.net", "tls://9.9.9.9:853#dns.quad9.net"},
        {"tls://[2620:fe::fe]:8853#dns.quad9.net", "tls://[2620:fe::fe]:8853#dns.quad9.net"},
        {"tls://2620:fe::fe#dns.quad9.net", "tls://[2620:fe::fe]:853#dns.quad9.net"},
        {"Dns.example.org", "dns.example.org:53"},
        {"localhost:5353", "localhost:5353"},
        {"tls://dns.quad9.net", "tls://dns.quad9.net:853#dns.quad9.net"},
        {"tls://dns.example.org:8853#a.example", "tls://dns.example.org:8853#a.example"}}) {
    const auto server = parse_upstream_server(text);
    ASSERT_TRUE(server) << text << ": " << server.error().message;
    EXPECT_EQ(server->to_string(), expected);
    EXPECT_EQ(parse_upstream_server(server->to_string()).value(), *server);
  }
}

TEST(UpstreamServerTest, RefusesInvalidServers) {
  struct Case {
    std::string_view text;
    std::string_view message;
  };
  for (const auto& [text, message] : {Case{"", "not an IP address"},
                                      {"dns", "not an IP address"},
                                      {"1.1.1.1@53", "write \"1.1.1.1:53\""},
                                      {"a..example.org", "not a domain name"},
                                      {"dns.example.org:0", "port 0"},
                                      {"tls://9.9.9.9", "needs the name"},
                                      {"tls://9.9.9.9#", "not a domain name"},
                                      {"https://9.9.9.9/dns-query", "not supported"},
                                      {"10.0.0.1:0", "port 0"},
                                      {"0.0.0.0", "not an address to send to"},
                                      {"[::]:53", "not an address to send to"},
                                      {"10.0.0.1:99999", "port \"99999\""}}) {
    const auto server = parse_upstream_server(text);
    ASSERT_FALSE(server) << text;
    EXPECT_THAT(server.error().message, HasSubstr(message)) << text;
  }
}

TEST(DefaultAllowTest, CoversPrivateAddressesOnly) {
  const auto is_allowed = [](std::string_view text) {
    const IpAddress ip = *IpAddress::parse(text);
    for (const IpPrefix& prefix : default_allow())
      if (prefix.contains(ip)) return true;
    return false;
  };
  for (const std::string_view text :
       {"127.0.0.1", "127.255.0.1", "::1", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "100.64.0.1", "100.127.255.255", "169.254.20.10", "fe80::1", "fc00::1",
        "fdff::1"})
    EXPECT_TRUE(is_allowed(text)) << text;
  for (const std::string_view text : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "192.169.0.1",
                                      "11.0.0.1", "2001:db8::1", "::2", "ff02::1", "fec0::1"})
    EXPECT_FALSE(is_allowed(text)) << text;
}

TEST(EnumTest, LogLevelsReadBack) {
  for (const LogLevel level : {LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn,
                               LogLevel::Error, LogLevel::Off})
    EXPECT_EQ(log_level_from_string(to_string(level)), level);
  EXPECT_EQ(log_level_from_string("INFO"), std::nullopt);
  EXPECT_EQ(log_level_from_string(""), std::nullopt);
}

}  // namespace
}  // namespace meshdns::dnsd
