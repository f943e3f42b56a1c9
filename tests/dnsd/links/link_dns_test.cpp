// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/link_dns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const SocketAddress kHome = *parse_socket_address("192.0.2.1:53");
const SocketAddress kOffice = *parse_socket_address("10.8.0.1:53");

TEST(LinkDnsTest, SendsDomainsToTheServersOfTheirLink) {
  LinkDns home;
  home.add_server(kHome);
  home.add_domain("home.example.", false);
  LinkDns office;
  office.is_default_route = false;
  office.add_server(kOffice);
  office.add_domain("Corp.Example", true);
  const LinkRoutes routes = routes_of({home, office});
  EXPECT_THAT(routes.zones, ElementsAre(Pair("corp.example", ElementsAre(kOffice)),
                                        Pair("home.example", ElementsAre(kHome))));
  EXPECT_THAT(routes.only_for_zones, ElementsAre(kOffice));
}

TEST(LinkDnsTest, JoinsTheServersOfLinksWithOneDomain) {
  LinkDns one;
  one.add_server(kHome);
  one.add_domain("corp.example", true);
  LinkDns two = one;
  two.is_default_route = false;
  two.add_server(kOffice);
  const LinkRoutes routes = routes_of({one, two});
  EXPECT_THAT(routes.zones, ElementsAre(Pair("corp.example", ElementsAre(kHome, kOffice))));
  // The first is asked for everything by another link.
  EXPECT_THAT(routes.only_for_zones, ElementsAre(kOffice));
}

TEST(LinkDnsTest, TakesATopLevelDomainOnlyAsARoutingDomain) {
  LinkDns link;
  link.add_server(kHome);
  link.add_domain("com", false);
  EXPECT_THAT(link.domains, IsEmpty());
  link.add_domain("lan", true);
  EXPECT_THAT(link.domains, ElementsAre("lan"));
}

TEST(LinkDnsTest, IsADefaultRouteWithTheRoot) {
  LinkDns link;
  link.is_default_route = false;
  link.add_domain(".", true);
  EXPECT_TRUE(link.is_default_route);
  EXPECT_THAT(link.domains, IsEmpty());
}

TEST(LinkDnsTest, SkipsWhatIsInvalidOrTooMuch) {
  LinkDns link;
  link.add_domain("not a name", true);
  for (int i = 0; i < 100; ++i) link.add_domain("d" + std::to_string(i) + ".example", true);
  EXPECT_EQ(link.domains.size(), kMaxLinkDomains);
  link.add_server(*parse_socket_address("0.0.0.0:53"));
  for (int i = 0; i < 100; ++i)
    link.add_server(*parse_socket_address("10.8.1." + std::to_string(i) + ":53"));
  EXPECT_EQ(link.servers.size(), kMaxLinkServers);
}

}  // namespace
}  // namespace meshdns::dnsd
