// SPDX-License-Identifier: Apache-2.0
// The questions that a walk along the search domains sends upstream; tests/scenarios/search has the
// answers (docs/semantics-istio.md, "Search names").
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class SearchTest : public QueryFixture {
 protected:
  void SetUp() override {
    be_authority();
    be_in("shop");
    load(R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
)");
  }
  void walk(std::vector<std::string> search) {
    registry::MeshSettings settings;
    settings.search_shortcut = registry::SearchShortcut::All;
    configure(settings);
    registry::ClientIdentity identity;
    identity.ns = "shop";
    identity.search = std::move(search);
    registry_.be(identity);
  }
};

TEST_F(SearchTest, WalkCostsOneQuestionUpstream) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"});
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., www.example.net. 60 "
            "A 192.0.2.1");
  EXPECT_EQ(upstream_.asked, std::vector<std::string>{"www.example.net. A"});
  // the family that it lacks is empty, not missing: musl would drop the good one
  upstream_.replies["www.example.net. AAAA"] = {
      .authority = {"example.net. 30 SOA ns.example.net."}};
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. AAAA"),
            "www.example.net.shop.svc.cluster.local. 5 CNAME www.example.net., @ example.net. SOA");
}

TEST_F(SearchTest, WalkThatFindsNothingIsOneNameError) {
  walk({"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"});
  EXPECT_EQ(ask_through("www.example.net.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(upstream_.asked,
            (std::vector<std::string>{"www.example.net. A", "www.example.net.corp.example. A"}));
}

TEST_F(SearchTest, WalkAsksAtMostEightQuestions) {
  std::vector<std::string> domains;
  for (int i = 0; i < 20; ++i) domains.push_back("d" + std::to_string(i) + ".example");
  walk(domains);
  EXPECT_EQ(ask_through("x.d0.example. A"), "not aa, NXDOMAIN, @ . SOA");
  EXPECT_EQ(upstream_.asked.size(), 8U);
}

TEST_F(SearchTest, WalkThatIsNotTriedToItsEndLeavesOurOwnNameError) {
  std::vector<std::string> domains = {"shop.svc.cluster.local"};
  for (int i = 0; i < 20; ++i) domains.push_back("d" + std::to_string(i) + ".example");
  walk(domains);
  EXPECT_EQ(ask_through("x.shop.svc.cluster.local. A"), "NXDOMAIN cluster.local.");
  EXPECT_EQ(upstream_.asked.size(), 8U);
}

}  // namespace
}  // namespace meshdns::dnsd
