// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/resolv_conf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<SocketAddress> addresses(std::initializer_list<std::string_view> texts) {
  std::vector<SocketAddress> result;
  for (const std::string_view text : texts) result.push_back(*parse_socket_address(text));
  return result;
}

std::vector<std::string> texts(const std::vector<SocketAddress>& servers) {
  std::vector<std::string> result;
  for (const SocketAddress& server : servers) result.push_back(server.to_string());
  return result;
}

TEST(ResolvConfTest, ReadsTheFileOfAPod) {
  const ResolvConf conf = parse_resolv_conf(
      "# from a Pod\n"
      "search shop.svc.cluster.local svc.cluster.local Cluster.Local.\n"
      "nameserver 10.96.0.10\n"
      "nameserver\t2001:db8::53   # the other one\n"
      "nameserver fe80::1%eth0\r\n"
      "options ndots:5 timeout:2 edns0 attempts:3\n");
  EXPECT_THAT(texts(conf.nameservers),
              ElementsAre("10.96.0.10:53", "[2001:db8::53]:53", "[fe80::1%eth0]:53"));
  EXPECT_THAT(conf.search,
              ElementsAre("shop.svc.cluster.local", "svc.cluster.local", "cluster.local"));
  EXPECT_EQ(conf.ndots, 5U);
  EXPECT_EQ(conf.timeout, std::chrono::seconds(2));
}

TEST(ResolvConfTest, IsTheDefaultsWhenEmpty) {
  EXPECT_EQ(parse_resolv_conf(""), ResolvConf());
  EXPECT_EQ(parse_resolv_conf("\n;comment\n#comment\n\n"), ResolvConf());
}

TEST(ResolvConfTest, SkipsInvalidLines) {
  const ResolvConf conf = parse_resolv_conf(
      "nameserver\nnameserver localhost\nnameserver 10.0.0.256\nNAMESERVER 10.0.0.1\n"
      "nameserver 10.0.0.2:5353\nnameservers 10.0.0.3\nsearch a..b good.example\n"
      "options ndots: ndots:x timeout:0 timeout:-1\nnameserver 10.0.0.4");
  EXPECT_THAT(texts(conf.nameservers), ElementsAre("10.0.0.4:53"));
  EXPECT_THAT(conf.search, ElementsAre("good.example"));
  EXPECT_EQ(conf.ndots, 1U);
  EXPECT_EQ(conf.timeout, std::chrono::seconds(5));
}

TEST(ResolvConfTest, LetsTheLastOfSearchAndDomainWin) {
  EXPECT_THAT(parse_resolv_conf("domain a.example\nsearch b.example c.example\n").search,
              ElementsAre("b.example", "c.example"));
  EXPECT_THAT(parse_resolv_conf("search b.example\ndomain a.example\n").search,
              ElementsAre("a.example"));
}

TEST(ResolvConfTest, LimitsAllValues) {
  std::string text = "options ndots:99 timeout:999\nsearch";
  for (int i = 0; i < 100; ++i) text += " d" + std::to_string(i) + ".example";
  for (int i = 0; i < 100; ++i) text += "\nnameserver 10.0.0." + std::to_string(i + 1);
  text += "\n";
  const ResolvConf conf = parse_resolv_conf(text);
  EXPECT_THAT(conf.nameservers, SizeIs(kMaxNameservers));
  EXPECT_THAT(conf.search, SizeIs(kMaxSearchDomains));
  EXPECT_EQ(conf.ndots, 15U);
  EXPECT_EQ(conf.timeout, std::chrono::seconds(30));
}

TEST(ResolvConfTest, IgnoresDuplicateServers) {
  EXPECT_THAT(parse_resolv_conf("nameserver 10.0.0.1\nnameserver 10.0.0.1\n").nameservers,
              SizeIs(1));
}

TEST(ResolvConfTest, ErrorsNameTheFileThatCannotBeRead) {
  const auto conf = read_resolv_conf("/nonexistent/resolv.conf");
  ASSERT_FALSE(conf);
  EXPECT_EQ(conf.error().message, "/nonexistent/resolv.conf: No such file or directory");
}

struct OwnCase {
  std::string_view name;
  std::string_view listen;
  std::string_view server;
  bool is_own;
};

TEST(ExcludeOwnTest, RemovesTheAddressesOfMeshdns) {
  const std::vector<IpAddress> local = {*IpAddress::parse("192.0.2.7"),
                                        *IpAddress::parse("2001:db8::7"),
                                        *IpAddress::parse("fe80::7")};
  for (const OwnCase& c : {
           OwnCase{"our address and port", "127.0.0.1:53", "127.0.0.1:53", true},
           {"our address, another port", "127.0.0.1:15053", "127.0.0.1:53", false},
           {"another's stub", "127.0.0.1:53", "127.0.0.53:53", false},
           {"a stub's address that is ours", "127.0.0.53:53", "127.0.0.53:53", true},
           {"any IPv4 loopback address under the wildcard", "0.0.0.0:53", "127.0.0.53:53", true},
           {"this machine's address under the wildcard", "0.0.0.0:53", "192.0.2.7:53", true},
           {"a remote address under the wildcard", "0.0.0.0:53", "192.0.2.8:53", false},
           {"the wildcard on another port", "0.0.0.0:15053", "192.0.2.7:53", false},
           {"IPv6 under the IPv4 wildcard", "0.0.0.0:53", "[2001:db8::7]:53", false},
           {"IPv4 under the dual-stack wildcard", "[::]:53", "192.0.2.7:53", true},
           {"IPv6 under the dual-stack wildcard", "[::]:53", "[2001:db8::7]:53", true},
           {"IPv6 loopback under the wildcard", "[::]:53", "[::1]:53", true},
           {"the unspecified address, which means this machine", "[::]:53", "0.0.0.0:53", true},
           {"our scoped address", "[fe80::7%eth0]:53", "[fe80::7%eth0]:53", true},
           {"the same address on another link", "[fe80::7%eth0]:53", "[fe80::7%eth1]:53", false},
       }) {
    const auto kept = exclude_own(addresses({c.server}), addresses({c.listen}), local);
    EXPECT_EQ(kept.empty(), c.is_own) << c.name;
  }
}

TEST(ExcludeOwnTest, KeepsTheOrderOfTheRest) {
  const auto kept = exclude_own(addresses({"10.0.0.2:53", "127.0.0.1:53", "10.0.0.1:53"}),
                                addresses({"127.0.0.1:53", "[::1]:53"}), {});
  EXPECT_THAT(texts(kept), ElementsAre("10.0.0.2:53", "10.0.0.1:53"));
  EXPECT_THAT(exclude_own({}, addresses({"[::]:53"}), {}), IsEmpty());
}

TEST(LocalAddressesTest, HasLoopback) {
  EXPECT_THAT(local_addresses(), testing::Contains(*IpAddress::parse("127.0.0.1")));
}

}  // namespace
}  // namespace meshdns::dnsd
