// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/dependency_pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "dnsd/query/query_counters.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

constexpr std::int64_t kNow = 1'764'338'700;  // 2025-11-28T14:05:00Z
constexpr std::uint64_t kClock = 1'000'000'000'000;

std::string entry(const std::string& ns, const std::string& name, const std::string& export_to) {
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name +
         ", namespace: " + ns + "}\nspec: {hosts: [" + name +
         ".example.org], addresses: [10.0.0.7], resolution: STATIC, exportTo: [\"" + export_to +
         "\"]}\n";
}

class DependencyPagesTest : public testing::Test {
 protected:
  DependencyPagesTest() {
    record_.configure({.keep = 3'600, .memory = std::size_t{1} << 20});
    registry_.load(entry("shop", "api", "*") + entry("data", "db", "."));
  }
  void ask(std::string_view ns, std::string_view workload, std::string_view host_ns,
           std::string_view host, AskedResult result) {
    AskedHost asked;
    asked.ns = ns;
    asked.workload = workload;
    asked.host_ns = host_ns;
    asked.host = host;
    asked.result = result;
    asked.types = static_cast<std::uint16_t>(1U << QueryCounters::type_slot(wire::Type::A) |
                                             1U << QueryCounters::type_slot(wire::Type::Aaaa));
    asked.questions = 3;
    asked.first_ns = kClock - 60'000'000'000;
    asked.last_ns = kClock;
    record_.add(asked, kClock, kNow);
  }
  std::string page(DependencyFilter filter = {}) {
    DependencyList list(registry_.registry(), record_, DependencyRecord::Mesh, std::move(filter));
    std::string text;
    while (!list.is_done()) list.step(text);
    return text;
  }

  registry::TestRegistry registry_;
  Dependencies record_;
};

TEST_F(DependencyPagesTest, HasEachRowWithItsObjectAndTheRuleThatHidesIt) {
  EXPECT_EQ(page(), "{\"record\":\"mesh\",\"dependencies\":[],\"workloads\":[]}\n");
  ask("shop", "web", "shop", "api.example.org", AskedResult::Address);
  ask("shop", "web", "data", "db.example.org", AskedResult::Hidden);
  record_.add_dropped("shop", "web", 2);
  const std::string numbers =
      R"(,"first":"2025-11-28T14:04:00Z","last":"2025-11-28T14:05:00Z","questions":3,)"
      R"("types":["A","AAAA"],)";
  const std::string api =
      R"json({"namespace":"shop","workload":"web","hostNamespace":"shop","host":"api.example.org",)json"
      R"json("object":"ServiceEntry shop/api (test.yaml:1)")json" +
      numbers + R"("result":"address","rule":""})";
  const std::string db =
      R"json({"namespace":"shop","workload":"web","hostNamespace":"data","host":"db.example.org",)json"
      R"json("object":"ServiceEntry data/db (test.yaml:1)")json" +
      numbers +
      R"("result":"hidden","rule":"exportTo does not include namespace shop, only data"})";
  EXPECT_EQ(page(), R"({"record":"mesh","dependencies":[)" + api + "," + db +
                        R"(],"workloads":[{"namespace":"shop","workload":"web",)"
                        R"("since":"2025-11-28T14:04:00Z","dropped":2,"incomplete":true}]})"
                        "\n");
}

TEST_F(DependencyPagesTest, SaysNothingOfAnObjectThatIsGoneOrARuleThatIsNoMore) {
  ask("shop", "web", "data", "db.example.org", AskedResult::Hidden);
  ask("data", "loader", "data", "db.example.org", AskedResult::Hidden);
  ask("shop", "web", "shop", "gone.example.org", AskedResult::Address);
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr(R"("host":"gone.example.org","object":"",)"));
  EXPECT_THAT(text, HasSubstr("exportTo does not include namespace shop, only data"));
  DependencyFilter filter;
  filter.ns = "data";
  EXPECT_THAT(page(filter), HasSubstr(R"("result":"hidden","rule":"")"))
      << "the namespace sees its own object";
  registry_.load(entry("data", "db", "*"));
  EXPECT_THAT(page(), Not(HasSubstr("exportTo")));
}

TEST_F(DependencyPagesTest, HasTheRuleForTheWorkloadIfAClientOfItIsKnown) {
  ask("shop", "web", "data", "db.example.org", AskedResult::Hidden);
  ask("shop", "gone", "data", "db.example.org", AskedResult::Hidden);
  registry_.load(entry("data", "db", "*") +
                 "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop, labels: "
                 "{app: web}}\n"
                 "spec: {}\nstatus: {phase: Running, podIP: 10.1.0.1}\n"
                 "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\n"
                 "metadata: {name: web, namespace: shop}\n"
                 "spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: [\"./*\"]}]}\n");
  registry_.registry().set_clients({{}, true, registry::UnknownClient::Public});
  DependencyFilter filter;
  filter.workload = "web";
  EXPECT_THAT(page(filter),
              HasSubstr("\"rule\":\"Sidecar shop/web (test.yaml:1) does not import it: "
                        "none of its egress hosts matches\""));
  filter.workload = "gone";
  EXPECT_THAT(page(filter), HasSubstr(R"("rule":"")")) << "others of the namespace see it";
}

// To a filter, an unknown namespace or workload is any.
TEST_F(DependencyPagesTest, HasRowsOfUnknownClientsOnce) {
  ask("", "", "shop", "api.example.org", AskedResult::Address);
  ask("shop", "", "shop", "api.example.org", AskedResult::Address);
  ask("shop", "web", "shop", "api.example.org", AskedResult::Address);
  const auto rows = [](std::string_view text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find("\"questions\"", at)) != text.npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(rows(page()), 3U);
  DependencyFilter filter;
  filter.ns = "shop";
  EXPECT_EQ(rows(page(filter)), 2U);
  filter.workload = "web";
  EXPECT_EQ(rows(page(filter)), 1U);
  filter.hidden_only = true;
  EXPECT_EQ(rows(page(filter)), 0U);
  filter = {};
  filter.host = "example.org";
  EXPECT_EQ(rows(page(filter)), 3U);
  filter.since = kNow + 1;
  EXPECT_EQ(rows(page(filter)), 0U);
}

TEST_F(DependencyPagesTest, CountsHiddenRowsOfABoundedNumberOfNamespaces) {
  EXPECT_TRUE(hidden_by_namespace(record_, 2).empty());
  ask("shop", "web", "data", "db.example.org", AskedResult::Hidden);
  ask("shop", "job", "data", "db.example.org", AskedResult::Hidden);
  ask("blog", "web", "data", "db.example.org", AskedResult::Hidden);
  ask("wiki", "web", "shop", "api.example.org", AskedResult::Address);
  EXPECT_THAT(hidden_by_namespace(record_, 2), ElementsAre(Pair("shop", 2), Pair("blog", 1)));
  ask("", "", "data", "db.example.org", AskedResult::Hidden);
  ask("wiki", "web", "data", "db.example.org", AskedResult::Hidden);
  EXPECT_THAT(hidden_by_namespace(record_, 2),
              ElementsAre(Pair("shop", 2), Pair("(unknown)", 1), Pair("(others)", 2)));
}

}  // namespace
}  // namespace meshdns::dnsd
