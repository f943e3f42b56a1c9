// SPDX-License-Identifier: Apache-2.0
// Hosts that one namespace claims and that are the short names of another's members.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

std::string headless(std::string_view name, std::string_view ns) {
  return "{apiVersion: v1, kind: Service, metadata: {name: " + std::string(name) +
         ", namespace: " + std::string(ns) + "}, spec: {clusterIP: None, ports: [{port: 80}]}}\n";
}

// The members' hostnames as a list: "db-0, db-1".
std::string slice(std::string_view service, std::string_view ns, const std::string& members) {
  std::string text = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: " +
                     std::string(service) + "-1, namespace: " + std::string(ns) +
                     ", labels: {kubernetes.io/service-name: " + std::string(service) +
                     "}}, addressType: IPv4, endpoints: [";
  for (std::size_t at = 0; at < members.size();) {
    const std::size_t comma = std::min(members.find(", ", at), members.size());
    text += "{addresses: [10.4.0.1], hostname: " + members.substr(at, comma - at) + "},";
    at = comma + 2;
  }
  return text + "]}\n";
}

std::string claim(const std::string& host, std::string_view ns) {
  return "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: c-" + host +
         ", namespace: " + std::string(ns) + "}, spec: {hosts: [" + host +
         "], addresses: [10.6.6.1], resolution: STATIC}}\n";
}

class MemberNamesTest : public testing::Test {
 protected:
  MemberNamesTest() { registry_.be_in("bank"); }

  // The address that a client of namespace bank gets.
  std::string address_of(std::string_view name) {
    const auto snapshot = registry_.registry().current();
    const View view(*snapshot, *snapshot->default_client);
    const Match match = view.lookup(name);
    if (!match) return "none";
    return match.service->is_claim() ? "claimed by " + std::string(match.service->ns->text())
                                     : "member";
  }
  bool can_shadow(std::string_view host) {
    const HostEntry* entry = registry_.registry().current()->find_host(host);
    return entry != nullptr && entry->records().front()->can_shadow;
  }
  void remove_slice(std::string_view service, std::string_view ns) {
    registry_.remove({Kind::EndpointSlice, "", std::string(ns), std::string(service) + "-1"});
  }

  TestRegistry registry_;
};

TEST_F(MemberNamesTest, AClaimStandsBackBehindTheMemberThatComesLater) {
  registry_.load(claim("db-0.db.shop", "net"));
  EXPECT_EQ(address_of("db-0.db.shop"), "claimed by net");
  registry_.load(headless("db", "shop"));
  EXPECT_EQ(address_of("db-0.db.shop"), "claimed by net") << "no member yet";
  registry_.load(slice("db", "shop", "db-0"));
  EXPECT_EQ(address_of("db-0.db.shop"), "member");
  registry_.load(slice("db", "shop", "db-1"));
  EXPECT_EQ(address_of("db-0.db.shop"), "claimed by net") << "it is no member any more";
  registry_.load(slice("db", "shop", "db-0, db-1"));
  EXPECT_EQ(address_of("db-0.db.shop"), "member");
  registry_.remove({Kind::Service, "", "shop", "db"});
  EXPECT_EQ(address_of("db-0.db.shop"), "claimed by net");
}

TEST_F(MemberNamesTest, AClaimThatComesLaterStandsBackToo) {
  registry_.load("---\n" + headless("db", "shop") + "---\n" + slice("db", "shop", "db-0"));
  registry_.load(claim("db-0.db.shop", "net"));
  EXPECT_EQ(address_of("db-0.db.shop"), "member");
  registry_.remove({Kind::ServiceEntry, "", "net", "c-db-0.db.shop"});
  EXPECT_EQ(address_of("db-0.db.shop"), "member");
}

TEST_F(MemberNamesTest, InOneCommitTheOrderDoesNotMatter) {
  registry_.load("---\n" + claim("db-0.db.shop", "net") + "---\n" + slice("db", "shop", "db-0") +
                 "---\n" + headless("db", "shop") + "---\n" + claim("db-0.db.shop", "zoo"));
  EXPECT_EQ(address_of("db-0.db.shop"), "member");
}

TEST_F(MemberNamesTest, TheOwnNamespaceAndOtherNamesKeepTheirClaims) {
  registry_.load("---\n" + headless("db", "shop") + "---\n" + slice("db", "shop", "db-0") +
                 "---\n" + claim("db-0.db.shop", "shop") + "---\n" + claim("db-1.db.shop", "net") +
                 "---\n" + claim("www.example.com", "net"));
  EXPECT_EQ(address_of("db-0.db.shop"), "claimed by shop");
  EXPECT_EQ(address_of("db-1.db.shop"), "claimed by net");
  EXPECT_EQ(address_of("www.example.com"), "claimed by net");
}

// Queries for the hosts of the outside, which have three labels more often than not, pay nothing.
TEST_F(MemberNamesTest, OnlyNamesOfMembersCostQueriesALook) {
  registry_.load("---\n" + headless("db", "shop") + "---\n" + slice("db", "shop", "db-0") +
                 "---\n" + headless("example", "com") + "---\n" + slice("example", "com", "db-0") +
                 "---\n" + claim("db-0.db.shop", "net") + "---\n" + claim("db-1.db.shop", "net") +
                 "---\n" + claim("www.example.com", "net"));
  EXPECT_TRUE(can_shadow("db-0.db.shop"));
  EXPECT_FALSE(can_shadow("db-1.db.shop"));
  EXPECT_FALSE(can_shadow("www.example.com"));
}

// Random changes of Services, members and claims: the answer is always that of the objects that
// there are, whatever came first.
TEST_F(MemberNamesTest, TheHistoryDoesNotMatter) {
  std::mt19937 random(7);
  const auto pick = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  std::map<unsigned, bool> services;                     // by namespace
  std::map<unsigned, unsigned> members;                  // a set of two bits
  std::map<std::pair<unsigned, unsigned>, bool> claims;  // (namespace, member), claimed by net
  const auto ns_of = [](unsigned ns) { return "ns" + std::to_string(ns); };
  for (int step = 0; step < 3'000; ++step) {
    const unsigned ns = pick(3);
    const unsigned member = pick(2);
    const std::string host = "m" + std::to_string(member) + ".db." + ns_of(ns);
    switch (pick(3)) {
      case 0:
        services[ns] = !services[ns];
        if (services[ns])
          registry_.load(headless("db", ns_of(ns)));
        else
          registry_.remove({Kind::Service, "", ns_of(ns), "db"});
        break;
      case 1:
        members[ns] = pick(4);
        if (members[ns] == 0)
          remove_slice("db", ns_of(ns));
        else
          registry_.load(slice("db", ns_of(ns),
                               members[ns] == 3   ? "m0, m1"
                               : members[ns] == 1 ? "m0"
                                                  : "m1"));
        break;
      default:
        claims[{ns, member}] = !claims[{ns, member}];
        if (claims[{ns, member}])
          registry_.load(claim(host, "net"));
        else
          registry_.remove({Kind::ServiceEntry, "", "net", "c-" + host});
    }
    for (unsigned n = 0; n < 3; ++n)
      for (unsigned m = 0; m < 2; ++m) {
        const bool is_member = services[n] && (members[n] & (1U << m)) != 0;
        const std::string expected = is_member        ? "member"
                                     : claims[{n, m}] ? "claimed by net"
                                     : services[n]    ? address_of("x.db." + ns_of(n))
                                                      : "none";
        ASSERT_EQ(address_of("m" + std::to_string(m) + ".db." + ns_of(n)), expected)
            << "step " << step;
      }
  }
}

}  // namespace
}  // namespace meshdns::registry
