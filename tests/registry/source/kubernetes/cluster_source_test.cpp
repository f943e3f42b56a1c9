// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/cluster_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/registry/source/fake_registry.hpp"
#include "tests/registry/source/kubernetes/fake_api.hpp"

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string object(std::string_view name, int version, std::string_view rest = "") {
  return R"({"metadata":{"name":")" + std::string(name) +
         R"(","namespace":"shop","resourceVersion":")" + std::to_string(version) + R"("})" +
         std::string(rest) + "}";
}
std::string service(std::string_view name, int version) {
  return object(name, version, R"(,"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]})");
}
std::string event(std::string_view type, const std::string& of) {
  return R"({"type":")" + std::string(type) + R"(","object":)" + of + "}\n";
}
const std::string kListed =
    R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100","annotations":)"
    R"({"k8s.io/initial-events-end":"true"}}}})";

constexpr std::string_view kNamespaces = "/api/v1/namespaces";
constexpr std::string_view kSlices = "/apis/discovery.k8s.io/v1/endpointslices";
constexpr std::string_view kEntries = "/apis/networking.istio.io/v1/serviceentries";
constexpr std::string_view kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

class ClusterSourceTest : public ::testing::Test {
 protected:
  ClusterSourceTest() {
    options_.naming.source = "kubernetes:t";
    source_ = std::make_unique<ClusterSource>(options_, transport_, scheduler_, no_jitter, sink_);
  }
  void restart() {
    source_.reset();
    source_ = std::make_unique<ClusterSource>(options_, transport_, scheduler_, no_jitter, sink_);
  }
  void pass(int milliseconds = 50) { scheduler_.pass(Milliseconds(milliseconds)); }

  void answer_discovery(bool has_istio = false) {
    std::map<std::string, std::string> kinds = {
        {"discovery.k8s.io", "endpointslices"},
        {"apiextensions.k8s.io", "customresourcedefinitions"}};
    if (has_istio) kinds["networking.istio.io"] = "serviceentries";
    ASSERT_TRUE(transport_.paths.back().starts_with("/apis/")) << transport_.paths.back();
    for (int i = 0; i < 10 && transport_.find("/apis/") != nullptr; ++i) {
      const std::string path = transport_.paths.back();
      const std::string group = path.substr(6, path.find('/', 6) - 6);
      const auto* const request = transport_.find(path);
      if (request == nullptr || request->path != path) break;
      if (!kinds.contains(group))
        transport_.answer(path, 404, "");
      else if (path.ends_with("/v1"))
        transport_.answer(path, 200, R"({"resources":[{"name":")" + kinds[group] + R"("}]})");
      else
        transport_.answer(path, 200, R"({"kind":"APIGroup","versions":[{"version":"v1"}]})");
    }
    pass();
  }
  void list(std::string_view path, const std::string& events = "") {
    ASSERT_TRUE(transport_.begin(path)) << path;
    ASSERT_TRUE(transport_.send(path, events + kListed)) << path;
  }
  void list_slices() {
    // Two collections of one path.
    list(std::string(kSlices) + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=" +
         (transport_.is_multiplexed ? "300" : "25"));
    for (const auto& path : transport_.paths)
      if (path.contains("labelSelector=service")) list(path);
  }
  void sync() {
    source_->start();
    answer_discovery();
    list(kCrds);
    list(kNamespaces);
    list(kServices, event("ADDED", service("web", 7)));
    list_slices();
    pass(1'000);
    ASSERT_TRUE(sink_.complete);
  }

  // Over connections 1, 2 and 3, the last of which brings something 4 s after the first.
  void spread_watches() {
    for (const std::string_view path : {kServices, kNamespaces}) {
      pass(2'000);
      ++transport_.connection;
      ASSERT_TRUE(transport_.end(path));
      ASSERT_TRUE(transport_.begin(path));
    }
  }

  ClusterSourceOptions options_;
  FakeScheduler scheduler_;
  FakeTransport transport_;
  FakeRegistry sink_;
  std::unique_ptr<ClusterSource> source_;
};

TEST_F(ClusterSourceTest, IsCompleteWhenEverythingIsListed) {
  source_->start();
  answer_discovery();
  list(kNamespaces);
  list(kServices, event("ADDED", service("web", 7)));
  pass(1'000);
  EXPECT_FALSE(sink_.complete);
  list_slices();
  pass(1'000);
  EXPECT_TRUE(sink_.complete);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
  EXPECT_THAT(sink_.all_origins,
              ElementsAre("kubernetes:t/endpointslices.discovery.k8s.io[headless]",
                          "kubernetes:t/endpointslices.discovery.k8s.io[other]",
                          "kubernetes:t/namespaces", "kubernetes:t/services"));
}

TEST_F(ClusterSourceTest, AppliesWhatComesTogetherInOneBatch) {
  sync();
  const int before = sink_.batches;
  for (int i = 0; i < 100; ++i)
    transport_.send(kServices, event("ADDED", service("s" + std::to_string(i), 200 + i)));
  pass(5);
  EXPECT_LE(sink_.batches, before + 2);
  EXPECT_EQ(sink_.texts().size(), 101U);
}

TEST_F(ClusterSourceTest, TheLastWordOnAnObjectCounts) {
  sync();
  transport_.send(kServices,
                  event("ADDED", service("a", 201)) + event("DELETED", service("a", 202)) +
                      event("DELETED", service("web", 203)) + event("ADDED", service("web", 204)));
  pass(5);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
}

// Seen of a server that was asked for a list while a Service was made anew.
TEST_F(ClusterSourceTest, TheEndOfAListTakesNothingAwayThatCameAfterIt) {
  sync();
  transport_.send(kServices, R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
  list(kServices, event("ADDED", service("other", 90)));
  transport_.send(kServices, event("ADDED", service("web", 101)));
  pass(5);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/other", "Service shop/web"));
}

TEST_F(ClusterSourceTest, KeepsTheLastGoodVersionOfAFaultyObject) {
  sync();
  transport_.send(kServices,
                  event("MODIFIED", object("web", 201, R"(,"spec":{"clusterIP":"10.0.0.300"})")) +
                      event("ADDED", service("other", 202)));
  pass(5);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/other", "Service shop/web"));
  ASSERT_EQ(sink_.findings["kubernetes:t/services"].size(), 1U);
  EXPECT_THAT(sink_.findings["kubernetes:t/services"][0].to_string(),
              HasSubstr("kubernetes:t/services: error: Service shop/web: spec.clusterIP"));
  transport_.send(kServices, event("MODIFIED", service("web", 203)));
  pass(5);
  EXPECT_THAT(sink_.findings["kubernetes:t/services"], IsEmpty());
}

std::string headless(std::string_view name, int version, std::string_view ns = "shop") {
  return R"({"metadata":{"name":")" + std::string(name) + R"(","namespace":")" + std::string(ns) +
         R"(","resourceVersion":")" + std::to_string(version) +
         R"("},"spec":{"clusterIP":"None","ports":[{"port":80}]}})";
}
std::string slice(std::string_view name, std::string_view of, int version) {
  return R"({"metadata":{"name":")" + std::string(name) +
         R"(","namespace":"shop","resourceVersion":")" + std::to_string(version) +
         R"(","labels":{"kubernetes.io/service-name":")" + std::string(of) +
         R"("}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}]})";
}
std::string list_of_slices(const std::string& items) {
  return R"({"kind":"EndpointSliceList","metadata":{"resourceVersion":"100"},"items":[)" + items +
         "]}";
}

class SliceSearchTest : public ClusterSourceTest {
 protected:
  SliceSearchTest() {
    options_.slices = {.grace = Milliseconds(1'000),
                       .repeat = Milliseconds(10'000),
                       .pause = Milliseconds(100),
                       .patience = Milliseconds(5'000)};
    restart();
  }
  // The requests for slices by the name of a Service.
  std::vector<std::string> searches() const {
    std::vector<std::string> paths;
    for (const auto& path : transport_.paths)
      if (path.contains("service-name")) paths.push_back(path);
    return paths;
  }
  bool is_under_way() const { return transport_.find(searches().back()) != nullptr; }
  void answer_search(const std::string& slices) {
    ASSERT_TRUE(transport_.answer(searches().back(), 200, list_of_slices(slices)));
    pass(5);
  }
  bool has(const std::string& label) const { return sink_.texts().contains(label); }
  std::string labelled_watch() const {
    for (const auto& path : transport_.paths)
      if (path.contains("labelSelector=service")) return path;
    return {};
  }
  // The Service db, whose slice db-1 a list has found.
  void find_slice() {
    sync();
    transport_.send(kServices, event("ADDED", headless("db", 201)));
    pass(1'200);
    ASSERT_EQ(searches().size(), 1U);
    answer_search(slice("db-1", "db", 50));
    ASSERT_TRUE(has("EndpointSlice shop/db-1"));
  }
};

TEST_F(SliceSearchTest, ListsTheSlicesOfAServiceWithoutTheLabelOnceAndAgainLater) {
  sync();
  transport_.send(kServices, event("MODIFIED", headless("db", 201)));
  pass(900);
  EXPECT_THAT(searches(), IsEmpty());
  pass(300);
  ASSERT_EQ(searches().size(), 1U);
  EXPECT_THAT(searches().back(), HasSubstr("/namespaces/shop/endpointslices?"));
  EXPECT_THAT(searches().back(), HasSubstr("service-name%3Ddb"));
  answer_search(slice("db-1", "db", 50) + "," + slice("web-1", "web", 51));
  EXPECT_THAT(sink_.texts(),
              ElementsAre("EndpointSlice shop/db-1", "Service shop/db", "Service shop/web"));
  pass(9'500);
  EXPECT_EQ(searches().size(), 1U) << "not watched";
  pass(1'000);
  ASSERT_EQ(searches().size(), 2U);
  answer_search(slice("db-2", "db", 60));
  EXPECT_FALSE(has("EndpointSlice shop/db-1"));
  EXPECT_TRUE(has("EndpointSlice shop/db-2"));
}

TEST_F(SliceSearchTest, AServiceWithTheLabelIsNotSearchedForUntilItLosesIt) {
  sync();
  transport_.send(kServices, event("ADDED", headless("db", 201)));
  transport_.send(labelled_watch(), event("ADDED", slice("db-1", "db", 202)));
  pass(20'000);
  EXPECT_THAT(searches(), IsEmpty());
  transport_.send(labelled_watch(), event("DELETED", slice("db-1", "db", 203)));
  pass(1'200);
  EXPECT_EQ(searches().size(), 1U);
}

TEST_F(SliceSearchTest, AtTheStartNothingIsWaitedFor) {
  source_->start();
  answer_discovery();
  list(kCrds);
  list(kNamespaces);
  list(kServices, event("ADDED", headless("db", 7)));
  list_slices();
  pass(150);
  EXPECT_TRUE(sink_.complete);
  ASSERT_EQ(searches().size(), 1U);
  answer_search(slice("db-1", "db", 50));
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
}

TEST_F(SliceSearchTest, ASliceThatGetsTheLabelIsNeverGone) {
  find_slice();
  transport_.send(labelled_watch(), event("ADDED", slice("db-1", "db", 202)));
  pass(5);
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
  EXPECT_THAT(sink_.origins["kubernetes:t/" + std::string(kNamedSlices)], IsEmpty());
  pass(20'000);
  EXPECT_EQ(searches().size(), 1U) << "all slices have the label";
  transport_.send(labelled_watch(), event("DELETED", slice("db-1", "db", 203)));
  pass(5);
  EXPECT_FALSE(has("EndpointSlice shop/db-1"));
}

TEST_F(SliceSearchTest, SlicesWithoutTheLabelStayBesideOneThatGetsIt) {
  find_slice();
  transport_.send(labelled_watch(), event("ADDED", slice("db-2", "db", 202)));
  pass(10'200);
  ASSERT_EQ(searches().size(), 2U);
  answer_search(slice("db-1", "db", 50));
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
  EXPECT_TRUE(has("EndpointSlice shop/db-2"));
}

TEST_F(SliceSearchTest, AListThatIsOlderThanTheLabelAddsNothing) {
  sync();
  transport_.send(kServices, event("ADDED", headless("db", 201)));
  pass(1'200);
  transport_.send(labelled_watch(), event("ADDED", slice("db-1", "db", 202)));
  answer_search(slice("db-1", "db", 50));
  EXPECT_THAT(sink_.origins["kubernetes:t/" + std::string(kNamedSlices)], IsEmpty());
}

TEST_F(SliceSearchTest, AServiceMayGoWhileItsListIsUnderWay) {
  sync();
  transport_.send(kServices, event("ADDED", headless("db", 201)));
  pass(1'200);
  ASSERT_TRUE(transport_.begin(searches().back()));
  transport_.send(kServices, event("DELETED", headless("db", 202)));
  pass(5);
  transport_.send(searches().back(), list_of_slices(slice("db-1", "db", 50)));
  transport_.end(searches().back());
  pass(20'000);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
  EXPECT_EQ(searches().size(), 1U);
  transport_.send(kServices, event("ADDED", headless("db", 203)));
  pass(1'200);
  EXPECT_EQ(searches().size(), 2U);
}

TEST_F(SliceSearchTest, WhatWasFoundGoesWithItsService) {
  find_slice();
  transport_.send(kServices, event("MODIFIED", service("db", 202)));
  pass(5);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/db", "Service shop/web"));
  transport_.send(kServices, event("MODIFIED", headless("db", 203)));
  pass(1'200);
  answer_search(slice("db-1", "db", 50));
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
}

TEST_F(SliceSearchTest, ASliceThatGoesToAnotherServiceStaysThere) {
  find_slice();
  transport_.send(kServices, event("ADDED", headless("other", 300)));
  pass(1'200);
  answer_search(slice("db-1", "other", 301));
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
  pass(9'000);
  EXPECT_THAT(searches().back(), HasSubstr("service-name%3Ddb"));
  answer_search("");
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
}

TEST_F(SliceSearchTest, ManyServicesCostFewRequestsAndNamespacesTakeTurns) {
  sync();
  const std::size_t watches = transport_.open();
  for (int i = 0; i < 2'000; ++i)
    transport_.send(kServices, event("ADDED", headless("s" + std::to_string(i), 201 + i)));
  transport_.send(kServices, event("ADDED", headless("db", 3'000, "lab")));
  pass(1'200);
  for (int i = 0; i < 60; ++i) {
    if (is_under_way()) answer_search("");
    pass(95);
    EXPECT_LE(transport_.open(), watches + 1);
  }
  const std::vector<std::string> paths = searches();
  EXPECT_LE(paths.size(), 61U);
  EXPECT_GE(paths.size(), 20U);
  EXPECT_TRUE(paths[0].contains("/lab/") || paths[1].contains("/lab/"));
  EXPECT_EQ(std::set(paths.begin(), paths.end()).size(), paths.size()) << "each has its turn";
}

TEST_F(SliceSearchTest, AListWithoutAnAnswerHoldsNothingBack) {
  sync();
  transport_.send(kServices,
                  event("ADDED", headless("a", 201)) + event("ADDED", headless("b", 202)));
  pass(1'200);
  const std::string first = searches().back();
  pass(5'500);
  EXPECT_NE(searches().back(), first) << "the other Service has its turn";
  transport_.send(kServices, event("ADDED", service("other", 203)));
  pass(5);
  EXPECT_TRUE(has("Service shop/other"));
  EXPECT_TRUE(source_->status().cluster->reachable);
  for (int i = 0; i < 10; ++i) pass(5'000);
  EXPECT_TRUE(source_->status().cluster->reachable);
  EXPECT_GE(searches().size(), 8U);
  EXPECT_LE(searches().size(), 20U);
}

TEST_F(SliceSearchTest, AListThatFailsIsRepeatedWithGrowingPauses) {
  sync();
  transport_.send(kServices, event("MODIFIED", headless("db", 201)));
  pass(1'200);
  for (int i = 0; i < 600; ++i) {
    if (is_under_way())
      transport_.answer(searches().back(), 500, R"({"kind":"Status","code":500,"message":"no"})");
    pass(100);
  }
  EXPECT_GE(searches().size(), 10U);
  EXPECT_LE(searches().size(), 40U);
  EXPECT_THAT(sink_.notices, Contains(HasSubstr("[unlabelled]: 500 no; retrying")).Times(1));
  EXPECT_THAT(source_->status().last_error, HasSubstr("[unlabelled]: failing: 500 no"));
  if (!is_under_way()) pass(5'000);
  answer_search(slice("db-1", "db", 50));
  EXPECT_TRUE(has("EndpointSlice shop/db-1"));
  EXPECT_EQ(source_->status().last_error, "");
}

TEST_F(SliceSearchTest, AListThatIsForbiddenIsAFinding) {
  sync();
  transport_.send(kServices, event("MODIFIED", headless("db", 201)));
  pass(1'200);
  for (int i = 0; i < 60; ++i) {
    if (is_under_way()) transport_.answer(searches().back(), 403, R"({"code":403})");
    pass(100);
  }
  const auto& findings = sink_.findings["kubernetes:t/" + std::string(kNamedSlices)];
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message, HasSubstr("may not be read"));
}

TEST_F(SliceSearchTest, WhatAnEarlierRunFoundStaysUntilItHasBeenLookedFor) {
  const std::string found = "kubernetes:t/" + std::string(kNamedSlices);
  options_.known = {std::string(kNamedSlices)};
  sink_.origins[found] = {{1, "EndpointSlice shop/db-1"}, {2, "EndpointSlice shop/old-1"}};
  restart();
  source_->start();
  answer_discovery();
  list(kCrds);
  list(kNamespaces);
  list(kServices, event("ADDED", headless("db", 7)));
  list_slices();
  pass(150);
  EXPECT_THAT(sink_.all_origins, Contains(found));
  EXPECT_TRUE(has("EndpointSlice shop/old-1"));
  answer_search(slice("db-1", "db", 50));
  pass(500);
  EXPECT_THAT(sink_.texts(), ElementsAre("EndpointSlice shop/db-1", "Service shop/db"));
  EXPECT_THAT(sink_.all_origins, Contains(found));
}

// One object as somebody may have written it who means no good, and what is said of it.
struct HostileObject {
  std::string_view what;
  std::string object;
  std::string_view message;
};

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::vector<HostileObject> hostile_objects() {
  const auto bad = [](const std::string& rest) { return object("bad", 203, "," + rest); };
  std::string doubles = R"("spec":[)";
  for (int i = 0; i < 2'000; ++i) doubles += R"({"x":1,"x":1},)";
  return {
      {"too deep", bad(R"("spec":{"x":)" + nested(100) + "}"), "nested more than 64 levels deep"},
      {"far too deep", bad(R"("spec":)" + nested(20'000)), "nested more than 64 levels deep"},
      {"too long", bad(R"("spec":")" + std::string(60'000, 'x') + '"'), "longer than the 50000"},
      {"not UTF-8", bad("\"spec\":\"\xFF\xC0\x80\""), "not JSON: Invalid encoding"},
      {"half a surrogate", bad(R"("spec":"\ud800")"), "not JSON: "},
      {"a NUL in a string", bad(std::string("\"spec\":\"\0\"", 10)), "not JSON: "},
      {"no value", bad(R"("spec":)"), "not JSON: "},
      {"no number", bad(R"("spec":1e)"), "not JSON: "},
      {"a bracket of the other kind", bad(R"("spec":[{"a":[1}]])"), "not JSON: "},
      {"two thousand keys twice", bad(doubles + "0]"), "too many faults"},
      {"metadata that comes last",
       R"({"spec":")"
       "\xFF"
       R"(","metadata":{"labels":{"name":"x"},"namespace":"shop",)"
       R"("name":"bad","resourceVersion":"203"},"status":{"name":"other"}})",
       "not JSON: "},
      {"a key twice", bad(R"("spec":{"clusterIP":"10.0.0.1","clusterIP":"10.0.0.2"})"),
       "spec.clusterIP: the key is given twice"},
      {"a number without end",
       bad(R"("spec":{"clusterIP":"10.0.0.1","ports":[{"port":)" + std::string(5'000, '9') + "}]}"),
       "not JSON: Number too big"},
      {"a list for a mapping", bad(R"("spec":[])"), "spec: expected a mapping, got a list"},
      {"a mapping for a text", bad(R"("spec":{"clusterIP":{"a":1}})"), "spec.clusterIP: "},
  };
}

class HostileObjectTest : public ClusterSourceTest {
 protected:
  HostileObjectTest() {
    options_.reflector.cutter.object_bytes = 50'000;
    source_ = std::make_unique<ClusterSource>(options_, transport_, scheduler_, no_jitter, sink_);
  }
  // That the bad one alone is refused, and how it is said.
  void expect_refused(const HostileObject& hostile) {
    SCOPED_TRACE(hostile.what);
    pass(1'000);
    EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/other", "Service shop/web"));
    const auto& findings = sink_.findings["kubernetes:t/services"];
    ASSERT_FALSE(findings.empty());
    const std::string line = findings.front().to_string();
    EXPECT_THAT(line, HasSubstr("kubernetes:t/services: error: Service shop/bad: "));
    EXPECT_THAT(line, HasSubstr(std::string(hostile.message)));
    EXPECT_LT(line.size(), 400U);
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_EQ(services().refused, 1U);
    EXPECT_TRUE(services().watching);
    EXPECT_EQ(services().errors, 0U);
  }
  CollectionStatus services() const {
    const SourceStatus status = source_->status();
    for (const auto& collection : status.cluster->collections)
      if (collection.name == "services") return collection;
    return {};
  }
  void begin_anew() {
    source_ = std::make_unique<ClusterSource>(options_, transport_, scheduler_, no_jitter, sink_);
    sink_ = FakeRegistry();
    source_->start();
    answer_discovery();
  }
};

TEST_F(HostileObjectTest, IsRefusedAloneInAStreamedList) {
  for (const auto& hostile : hostile_objects()) {
    begin_anew();
    list(kServices, event("ADDED", service("web", 7)) + event("ADDED", hostile.object) +
                        event("ADDED", service("other", 8)));
    expect_refused(hostile);
  }
}

TEST_F(HostileObjectTest, IsRefusedAloneInAPage) {
  for (const auto& hostile : hostile_objects()) {
    begin_anew();
    transport_.answer(kServices, 400, "");
    transport_.answer(kServices, 200,
                      R"({"kind":"ServiceList","metadata":{"resourceVersion":"100"},"items":[)" +
                          service("web", 7) + "," + hostile.object + "," + service("other", 8) +
                          "]}");
    transport_.begin(kServices);
    expect_refused(hostile);
  }
}

// The event around an object in a watch is not part of it.
TEST_F(HostileObjectTest, MayNestAsDeepInAWatchAsInAPage) {
  const auto deep = [](std::string_view name, int version, std::size_t levels) {
    return object(name, version,
                  R"(,"spec":{"clusterIP":"10.96.0.1"},"more":)" + nested(levels - 1));
  };
  begin_anew();
  transport_.answer(kServices, 400, "");
  transport_.answer(kServices, 200,
                    R"({"kind":"ServiceList","metadata":{"resourceVersion":"100"},"items":[)" +
                        deep("listed", 90, 64) + "," + deep("bad", 91, 65) + "]}");
  transport_.begin(kServices);
  transport_.send(
      kServices, event("ADDED", deep("watched", 201, 64)) + event("ADDED", deep("worse", 202, 65)));
  pass(1'000);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/listed", "Service shop/watched"));
  EXPECT_EQ(services().refused, 2U);
}

TEST_F(HostileObjectTest, IsRefusedAloneInAWatch) {
  for (const auto& hostile : hostile_objects()) {
    begin_anew();
    list(kServices, event("ADDED", service("web", 7)));
    transport_.send(kServices,
                    event("ADDED", hostile.object) + event("ADDED", service("other", 204)));
    expect_refused(hostile);
    EXPECT_EQ(services().resource_version, "204");
    transport_.send(kServices, event("DELETED", object("bad", 205)));
    pass();
    EXPECT_EQ(services().refused, 0U);
    EXPECT_THAT(sink_.findings["kubernetes:t/services"], IsEmpty());
  }
}

TEST_F(HostileObjectTest, LeavesItsLastGoodVersionAndGoesWhenItIsDeleted) {
  const std::string unreadable = object("web", 201, R"(,"spec":)" + nested(100));
  begin_anew();
  list(kServices, event("ADDED", service("web", 7)));
  transport_.send(kServices, event("MODIFIED", unreadable));
  pass();
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
  transport_.send(kServices, R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
  list(kServices, event("ADDED", unreadable));
  pass();
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web")) << "though no list has shown it";
  transport_.send(kServices, event("DELETED", unreadable));
  pass();
  EXPECT_THAT(sink_.texts(), IsEmpty());
}

// Any of the objects may be the one that cannot be told apart: none is taken for gone.
TEST_F(HostileObjectTest, WithoutANameTakesNothingAway) {
  const std::string nameless = R"({"spec":)" + nested(100) + "}";
  begin_anew();
  list(kServices, event("ADDED", service("web", 7)) + event("ADDED", service("gone", 8)));
  transport_.send(kServices, R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
  list(kServices, event("ADDED", service("web", 7)) + event("ADDED", nameless));
  pass();
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/gone", "Service shop/web"));
  EXPECT_EQ(services().refused, 1U);
  ASSERT_EQ(sink_.findings["kubernetes:t/services"].size(), 1U);
  EXPECT_THAT(sink_.findings["kubernetes:t/services"][0].message,
              HasSubstr("an object without a name cannot be read: nested"));
}

// An event without an object, such as the bookmark that ends a list, must not be skipped.
TEST_F(HostileObjectTest, IsNoReasonToPassOverOtherEvents) {
  begin_anew();
  transport_.begin(kServices);
  transport_.send(kServices, event("ADDED", service("web", 7)) + event("BOOKMARK", nested(100)));
  pass();
  EXPECT_EQ(services().error, "an event of the watch is not JSON");
  EXPECT_FALSE(services().synced);
}

TEST_F(HostileObjectTest, AreAllCountedAndNotAllTold) {
  begin_anew();
  std::string events;
  for (int i = 0; i < 600; ++i)
    events +=
        event("ADDED", object("bad" + std::to_string(i), 10 + i, R"(,"spec":)" + nested(100)));
  list(kServices, events);
  pass();
  EXPECT_EQ(services().refused, 600U);
  const auto& findings = sink_.findings["kubernetes:t/services"];
  ASSERT_EQ(findings.size(), 501U);
  EXPECT_EQ(findings.back().message, "and 100 more objects that are refused");
}

// Objects become faulty and sound again, in a watch and in lists that lack some of them.
TEST_F(HostileObjectTest, AreCountedAndToldAsTheyAreOverRandomHistories) {
  std::mt19937 random(11);
  const auto pick = [&](std::size_t bound) { return random() % bound; };
  std::map<std::string, std::size_t> forms;  // of the objects that the server has
  int version = 200;
  // Sound, sound with a warning, and two that are refused.
  const auto print = [&](const std::string& name, std::size_t form) {
    const std::string rests[] = {R"(,"spec":{"clusterIP":"10.96.0.1"})",
                                 R"(,"spec":{"clusterIP":"10.96.0.1","trafficDistribution":"X"})",
                                 R"(,"spec":{"clusterIP":"10.0.0.300"})",
                                 R"(,"spec":)" + nested(100)};
    return object(name, ++version, rests[form]);
  };
  begin_anew();
  list(kServices);
  for (int step = 0; step < 300; ++step) {
    const std::string name = "s" + std::to_string(pick(5));
    const auto known = forms.find(name);
    int batches = sink_.batches;
    bool is_news = true;
    if (pick(8) == 0 && !forms.empty()) {
      transport_.send(kServices, R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
      // An empty list would have to be confirmed.
      const std::string kept = forms.begin()->first;
      std::erase_if(forms, [&](const auto& item) { return item.first != kept && pick(3) == 0; });
      std::string events;
      for (auto& [other, form] : forms) {
        if (pick(3) == 0) form = pick(4);
        events += event("ADDED", print(other, form));
      }
      version += 1'000;
      for (int i = 0; i < 1'000 && transport_.find(kServices) == nullptr; ++i) pass();
      ASSERT_TRUE(transport_.begin(kServices));
      transport_.send(kServices,
                      events + R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
                          std::to_string(version) +
                          R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})");
    } else if (pick(4) == 0) {
      if (known == forms.end()) continue;
      transport_.send(kServices, event("DELETED", print(name, known->second)));
      forms.erase(known);
    } else {
      const std::size_t form = pick(4);
      is_news = form < 2 || known == forms.end() || known->second != form;
      forms[name] = form;
      transport_.send(kServices,
                      event(known == forms.end() ? "ADDED" : "MODIFIED", print(name, form)));
    }
    pass();
    SCOPED_TRACE("step " + std::to_string(step));
    const auto refused = [](const auto& item) { return item.second >= 2; };
    ASSERT_EQ(services().refused, static_cast<std::size_t>(std::ranges::count_if(forms, refused)));
    std::multiset<std::string> told;
    for (const Finding& finding : sink_.findings["kubernetes:t/services"])
      told.insert(finding.object);
    std::multiset<std::string> expected;
    for (const auto& [other, form] : forms)
      if (form > 0) expected.insert("shop/" + other);
    ASSERT_EQ(told, expected);
    ASSERT_EQ(sink_.batches > batches, is_news) << "equal findings are told once";
  }
}

TEST_F(HostileObjectTest, WithoutAVersionDoesNotMoveTheWatch) {
  sync();
  transport_.send(kServices, event("ADDED", R"({"metadata":{"name":"bad","namespace":"shop"}})"));
  pass();
  EXPECT_EQ(services().resource_version, "100");
}

TEST_F(ClusterSourceTest, ServesOnWithoutWhatMayNotBeRead) {
  source_->start();
  answer_discovery();
  list(kCrds);
  list(kNamespaces);
  list(kServices, event("ADDED", service("web", 7)));
  for (int i = 0; i < 200; ++i) {
    while (transport_.answer(kSlices, 403, R"({"kind":"Status","code":403,"message":"not you"})")) {
    }
    pass(100);
  }
  EXPECT_TRUE(sink_.complete);
  const auto& findings = sink_.findings["kubernetes:t/endpointslices.discovery.k8s.io[headless]"];
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message,
              HasSubstr("grant list and watch of endpointslices.discovery.k8s.io in the "
                        "ClusterRole"));
  EXPECT_THAT(source_->status().last_error, HasSubstr("forbidden"));
}

TEST_F(ClusterSourceTest, SaysThatACollectionMayNotBeReadAsLongAsThatIsSo) {
  sync();
  const auto& findings = sink_.findings["kubernetes:t/namespaces"];
  const auto wait_for_request = [&] {
    for (int i = 0; i < 1'000 && transport_.find(kNamespaces) == nullptr; ++i) pass(1'000);
  };
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    transport_.end(kNamespaces, fail("reset"));
    for (int tenths = 0; tenths < 150; ++tenths) {
      transport_.answer(kNamespaces, 403, R"({"kind":"Status","code":403})");
      pass(100);
      if (tenths == 30) {
        EXPECT_THAT(findings, IsEmpty()) << "the server may be starting";
      }
    }
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_THAT(findings[0].message, HasSubstr("may not be read"));
    wait_for_request();
    if (round == 1) {
      transport_.answer(kNamespaces, 500, R"({"kind":"Status","code":500})");
      pass(100);
      EXPECT_THAT(findings, IsEmpty()) << "it is not the right that is missing";
      wait_for_request();
    }
    list(kNamespaces);
    pass(100);
    EXPECT_THAT(findings, IsEmpty());
  }
}

TEST_F(ClusterSourceTest, SaysNothingOfRefusalsWhileAServerStarts) {
  sync();
  transport_.end(kServices, fail("reset"));
  for (int i = 0; i < 20; ++i) {
    transport_.answer(kServices, 403, R"({"kind":"Status","code":403})");
    pass(100);
  }
  while (transport_.find(kServices) == nullptr) pass(100);
  transport_.begin(kServices);
  pass(10'000);
  EXPECT_THAT(sink_.findings["kubernetes:t/services"], IsEmpty());
}

TEST_F(ClusterSourceTest, SaysOnceThatACollectionFails) {
  sync();
  const auto before = sink_.notices.size();
  transport_.end(kServices, fail("reset"));
  for (int i = 0; i < 20; ++i) {
    transport_.answer(kServices, 500, R"({"kind":"Status","code":500,"message":"oh"})");
    pass(500);
  }
  ASSERT_EQ(sink_.notices.size(), before + 1);
  EXPECT_THAT(sink_.notices.back(), HasSubstr("services: 500 oh"));
}

TEST_F(ClusterSourceTest, IsNotCompleteWithoutServices) {
  source_->start();
  answer_discovery();
  list(kNamespaces);
  list_slices();
  for (int i = 0; i < 200; ++i) {
    transport_.answer(kServices, 403, R"({"kind":"Status","code":403})");
    pass(100);
  }
  EXPECT_FALSE(sink_.complete);
}

class ChosenNamespacesTest : public ClusterSourceTest {
 protected:
  ChosenNamespacesTest() { options_.needs.namespaces = {"shop", "shp", "web"}; }

  // Begins anew with an API that has `existing`; the others may not be read if `others_refused`.
  void read(const std::set<std::string>& existing, bool others_refused = false) {
    restart();
    transport_.paths.clear();
    sink_.complete = false;
    source_->start();
    answer_discovery();
    std::set<std::string> listed;
    for (int tenths = 0; tenths < 100 && !sink_.complete; ++tenths) {
      for (const std::string& path : std::vector(transport_.paths)) {
        if (!path.contains('?') || listed.contains(path) || !transport_.find(path)) continue;
        const std::string ns = namespace_of(path);
        if (others_refused && !ns.empty() && !existing.contains(ns)) {
          transport_.answer(path, 403, R"({"kind":"Status","code":403})");
          continue;
        }
        list(path, existing.contains(ns) ? event("ADDED", named(ns)) : "");
        listed.insert(path);
      }
      pass(100);
    }
    ASSERT_TRUE(sink_.complete);
  }
  void tell(std::string_view type, const std::string& ns) {
    for (const std::string& path : std::vector(transport_.paths))
      if (namespace_of(path) == ns) ASSERT_TRUE(transport_.send(path, event(type, named(ns))));
    pass();
  }
  bool is_awaited() const { return source_->status().awaits_namespace; }
  std::string error() const { return source_->status().last_error; }

 private:
  static std::string named(const std::string& ns) {
    return R"({"metadata":{"name":")" + ns + R"(","resourceVersion":"101"}})";
  }
  // The namespace whose object alone the path asks for; else empty.
  static std::string namespace_of(const std::string& path) {
    constexpr std::string_view selector = "metadata.name%3D";
    const auto at = path.find(selector);
    return at == std::string::npos ? std::string() : path.substr(at + selector.size());
  }
};

TEST_F(ChosenNamespacesTest, AreAwaitedUntilTheyHaveExisted) {
  read({"shop"});
  EXPECT_TRUE(is_awaited());
  EXPECT_EQ(error(),
            R"(chosen namespaces that do not exist: "shp", "web"; create them, or correct )"
            R"("namespaces" of the configuration)");
  EXPECT_THAT(sink_.notices, Contains(error()).Times(1));
  tell("ADDED", "web");
  EXPECT_TRUE(is_awaited());
  tell("ADDED", "shp");
  EXPECT_FALSE(is_awaited());
  EXPECT_EQ(error(), "");
  tell("DELETED", "shop");
  EXPECT_FALSE(is_awaited()) << "it has existed";
  EXPECT_THAT(error(), HasSubstr(R"(do not exist: "shop"; )"));
  EXPECT_EQ(sink_.notices.back(), error());
}

TEST_F(ChosenNamespacesTest, OfAnEarlierRunAreNotAwaited) {
  options_.known = {"namespaces[shp]", "services@shp"};
  read({"shop", "web"});
  EXPECT_FALSE(is_awaited());
  EXPECT_THAT(error(), HasSubstr(R"(do not exist: "shp"; )"));
  options_.known.clear();
  read({"shop", "web"});
  EXPECT_TRUE(is_awaited());
}

TEST_F(ChosenNamespacesTest, ThatHaveNeverExistedAreNotKnownToTheNextRun) {
  read({"shop"});
  EXPECT_TRUE(sink_.origins.contains("kubernetes:t/namespaces[shop]"));
  EXPECT_FALSE(sink_.origins.contains("kubernetes:t/namespaces[shp]"));
  tell("ADDED", "shp");
  tell("DELETED", "shp");
  EXPECT_TRUE(sink_.origins.contains("kubernetes:t/namespaces[shp]"));
}

TEST_F(ChosenNamespacesTest, AreAwaitedBeforeAnythingIsRead) {
  restart();
  EXPECT_TRUE(is_awaited());
  options_.known = {"namespaces[shop]", "namespaces[shp]", "namespaces[web]"};
  restart();
  EXPECT_FALSE(is_awaited());
}

// The run before may not have had the right to read them.
TEST_F(ChosenNamespacesTest, AreNotAwaitedAfterAnEarlierRunWhileTheApiServerCannotBeAsked) {
  const auto start_without_server = [&] {
    restart();
    source_->start();
    EXPECT_TRUE(is_awaited());
    for (int tries = 0; tries < 5; ++tries) {
      while (transport_.open() > 0)
        transport_.end(transport_.find("/")->path, fail("connection refused"));
      pass(30'000);
    }
    EXPECT_NE(error(), "");
  };
  start_without_server();
  EXPECT_TRUE(is_awaited());
  options_.known = {"services@shop"};
  start_without_server();
  EXPECT_FALSE(is_awaited());
}

TEST_F(ChosenNamespacesTest, ThatMayNotBeReadAreNotMissing) {
  read({"shop", "web"}, true);
  EXPECT_FALSE(is_awaited());
  EXPECT_THAT(error(), HasSubstr("namespaces[shp]: forbidden"));
  EXPECT_THAT(sink_.notices, ::testing::Not(Contains(HasSubstr("do not exist"))));
}

TEST_F(ClusterSourceTest, FollowsAKindFromTheMomentThatItsCrdIsThere) {
  sync();
  EXPECT_EQ(transport_.find(kEntries), nullptr);
  transport_.send(kCrds, event("ADDED", object("serviceentries.networking.istio.io", 201)));
  pass(150);
  answer_discovery(true);
  list(kEntries,
       event("ADDED", object("e", 5,
                             R"(,"spec":{"hosts":["a.example.org"],"ports":[{"number":80,)"
                             R"("name":"http","protocol":"HTTP"}],"resolution":"DNS"})")));
  pass(5);
  EXPECT_TRUE(sink_.texts().contains("ServiceEntry shop/e"));
  // And no longer once it is gone.
  transport_.send(kCrds, event("DELETED", object("serviceentries.networking.istio.io", 202)));
  pass(150);
  answer_discovery(false);
  pass(50);
  EXPECT_EQ(transport_.find(kEntries), nullptr);
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
}

constexpr std::string_view kEntryRest =
    R"(,"spec":{"hosts":["a.example.org"],"ports":[{"number":80,"name":"http","protocol":"HTTP"}],)"
    R"("resolution":"DNS"})";
constexpr std::string_view kEntriesOrigin = "kubernetes:t/serviceentries.networking.istio.io";

// A server that has come back lacks its CRDs for a while.
class MissingKindTest : public ClusterSourceTest {
 protected:
  void sync_with_entry(bool may_watch_crds = true) {
    source_->start();
    answer_discovery(true);
    if (may_watch_crds)
      list(kCrds, event("ADDED", object("serviceentries.networking.istio.io", 1)));
    else
      are_crds_refused_ = transport_.answer(kCrds, 403, "");
    list(kNamespaces);
    list(kServices, event("ADDED", service("web", 7)));
    list_slices();
    list(kEntries, event("ADDED", object("e", 5, kEntryRest)));
    pass(1'000);
    ASSERT_TRUE(sink_.complete);
  }
  bool has_entry() { return sink_.texts().contains("ServiceEntry shop/e"); }
  std::string trouble() const {
    const SourceStatus status = source_->status();
    for (const auto& each : status.cluster->collections)
      if (each.name == "serviceentries.networking.istio.io") return each.trouble;
    return "is not followed";
  }
  std::size_t findings() { return sink_.findings[std::string(kEntriesOrigin)].size(); }
  // Answers each discovery; `istio` is the status of the group of the kind.
  void live(int seconds, unsigned istio, unsigned readyz) {
    constexpr std::string_view group = R"({"kind":"APIGroup","versions":[{"version":"v1"}]})";
    const auto answer = [&](const std::string& path, unsigned status, std::string_view kind) {
      transport_.answer_whole(path, status, group);
      transport_.answer_whole(path + "/v1", status,
                              R"({"resources":[{"name":")" + std::string(kind) + R"("}]})");
    };
    for (int i = 0; i < 10 * seconds; ++i) {
      pass(100);
      answer("/apis/discovery.k8s.io", 200, "endpointslices");
      answer("/apis/apiextensions.k8s.io", 200, "customresourcedefinitions");
      answer("/apis/networking.istio.io", istio, "serviceentries");
      answer("/apis/multicluster.x-k8s.io", 404, "");
      answer("/apis/net.gke.io", 404, "");
      transport_.answer_whole("/readyz", readyz, "");
      transport_.answer_whole("/livez", 200, "");
      if (are_crds_refused_) transport_.answer(kCrds, 403, "");
    }
  }
  void lose_the_watch_of_crds() {
    transport_.send(kCrds, R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
  }

  bool are_crds_refused_ = false;
};

TEST_F(MissingKindTest, StaysWhileTheServerIsNotReady) {
  sync_with_entry();
  lose_the_watch_of_crds();
  list(kCrds, event("ADDED", object("serviceentries.networking.istio.io", 1)));
  live(80, 404, 500);
  EXPECT_TRUE(has_entry());
  EXPECT_EQ(trouble(), "unconfirmed");
  EXPECT_EQ(findings(), 1U);
  live(10, 200, 200);
  EXPECT_TRUE(has_entry());
  EXPECT_EQ(trouble(), "");
  EXPECT_EQ(findings(), 0U);
}

TEST_F(MissingKindTest, LeavesWhenTheServerHasBeenReadyWithoutItForAMinute) {
  sync_with_entry(false);
  live(10, 200, 200);
  live(25, 404, 500);
  EXPECT_TRUE(has_entry());
  live(50, 404, 200);
  EXPECT_TRUE(has_entry());
  EXPECT_EQ(trouble(), "unconfirmed");
  live(20, 404, 200);
  EXPECT_FALSE(has_entry());
  EXPECT_EQ(trouble(), "is not followed");
}

TEST_F(MissingKindTest, LeavesWhenAListOfDefinitionsLacksIt) {
  sync_with_entry();
  lose_the_watch_of_crds();
  list(kCrds, event("ADDED", object("others.example.org", 1)));
  live(1, 404, 500);
  EXPECT_FALSE(has_entry());
}

TEST_F(MissingKindTest, StaysWhileItsGroupFails) {
  sync_with_entry();
  lose_the_watch_of_crds();
  list(kCrds, event("ADDED", object("serviceentries.networking.istio.io", 1)));
  live(80, 503, 200);
  EXPECT_TRUE(has_entry());
  EXPECT_EQ(trouble(), "unconfirmed");
}

TEST_F(ClusterSourceTest, FollowsThePodsThatAServiceEntrySelects) {
  sync();
  transport_.send(kCrds, event("ADDED", object("serviceentries.networking.istio.io", 201)));
  pass(150);
  answer_discovery(true);
  const std::string entry = object(
      "e", 5,
      R"(,"spec":{"hosts":["a.example.org"],"ports":[{"number":80,"name":"http","protocol":"HTTP"}],)"
      R"("resolution":"STATIC","location":"MESH_INTERNAL","workloadSelector":{"labels":{"a":"b"}}})");
  list(kEntries, event("ADDED", entry));
  pass(50);
  constexpr std::string_view pods = "/api/v1/namespaces/shop/pods";
  EXPECT_NE(transport_.find(pods), nullptr);
  transport_.send(kEntries, event("DELETED", object("e", 300)));
  pass(50);
  EXPECT_EQ(transport_.find(pods), nullptr);
}

TEST_F(ClusterSourceTest, OnlyOneAsksAServerThatIsAway) {
  sync();
  pass(5'000);
  while (transport_.open() > 0) {
    const std::string path = transport_.find("/")->path;
    transport_.end(path, fail("connection refused"));
  }
  const std::size_t before = transport_.paths.size();
  for (int i = 0; i < 600; ++i) {
    while (transport_.open() > 0)
      transport_.end(transport_.find("/")->path, fail("connection refused"));
    pass(100);
  }
  EXPECT_LT(transport_.paths.size() - before, 60U) << "in a minute, of five collections";
  EXPECT_THAT(source_->status().last_error, HasSubstr("has not answered for"));
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/web"));
  // As soon as one is answered, all ask.
  for (int i = 0; i < 100 && transport_.open() == 0; ++i) pass(100);
  transport_.begin("/");
  EXPECT_EQ(transport_.open(), 5U);
  EXPECT_TRUE(source_->status().cluster->reachable);
}

TEST_F(ClusterSourceTest, AsksAgainWhenDiscoveryGetsNoAnswer) {
  source_->start();
  ASSERT_EQ(transport_.paths.size(), 1U);
  pass(19'000);
  EXPECT_EQ(transport_.paths.size(), 1U);
  pass(2'000);
  EXPECT_THAT(source_->status().last_error, HasSubstr("silence for 20 s"));
  EXPECT_EQ(transport_.distrusts, 1);
  pass(5'000);
  EXPECT_GT(transport_.paths.size(), 1U);
}

TEST_F(ClusterSourceTest, LeavesAConnectionThatBringsNothingWithin45Seconds) {
  sync();
  const std::size_t watches = transport_.open();
  // A change comes, and then nothing more.
  transport_.send(kServices, event("ADDED", service("api", 101)));
  pass(24'000);
  EXPECT_EQ(transport_.find("/livez"), nullptr);
  pass(1'000);
  ASSERT_NE(transport_.find("/livez"), nullptr);
  EXPECT_EQ(transport_.distrusts, 0);
  pass(15'000);
  EXPECT_EQ(transport_.distrusts, 1);
  EXPECT_EQ(transport_.find("/livez"), nullptr);
  EXPECT_EQ(transport_.open(), watches);
  EXPECT_THAT(transport_.find(kServices)->path, HasSubstr("resourceVersion=101"));
  EXPECT_THAT(sink_.notices.back(), HasSubstr("brings no answers any more"));
  EXPECT_THAT(sink_.texts(), ElementsAre("Service shop/api", "Service shop/web"));
}

// As after a request without an answer: the next ones go over a new connection.
TEST_F(ClusterSourceTest, AConnectionThatWorksSaysNothingOfAnother) {
  sync();
  const std::size_t watches = transport_.open();
  transport_.end(kServices, fail("silence"));
  transport_.connection = 2;
  for (int i = 0; i < 26; ++i) {
    pass(1'000);
    transport_.begin(kServices);
    transport_.send(kServices, event("MODIFIED", service("web", 101 + i)));
  }
  const std::size_t before = transport_.paths.size();
  ASSERT_TRUE(transport_.begin("/livez"));
  EXPECT_EQ(transport_.paths.size() - before, watches - 1) << "all but the one that works";
  ASSERT_TRUE(transport_.end("/livez"));
  EXPECT_EQ(transport_.open(), watches);
  EXPECT_EQ(transport_.distrusts, 0);
}

// Three connections of a server that limits the requests of one, as proxies do.  They are heard of
// at different times, and die at the same one.
TEST_F(ClusterSourceTest, ConnectionsThatDieTogetherAreLeftTogether) {
  sync();
  const std::size_t watches = transport_.open();
  spread_watches();
  pass(21'000);
  ASSERT_NE(transport_.find("/livez"), nullptr);
  const std::size_t before = transport_.paths.size();
  pass(15'000);
  EXPECT_EQ(transport_.paths.size() - before, watches);
  EXPECT_EQ(transport_.distrusts, 1);
}

TEST_F(ClusterSourceTest, AnAnswerOverANewConnectionHasAllSilentOnesTried) {
  sync();
  const std::size_t watches = transport_.open();
  spread_watches();
  pass(21'000);
  const std::size_t before = transport_.paths.size();
  transport_.connection = 4;
  ASSERT_TRUE(transport_.begin("/livez"));
  EXPECT_EQ(transport_.paths.size() - before, watches);
  // Some may be sent over a dead connection.
  pass(14'000);
  EXPECT_EQ(transport_.distrusts, 0);
  pass(1'000);
  EXPECT_EQ(transport_.distrusts, static_cast<int>(watches)) << "of which the transport heeds one";
}

// A request for /livez is under way over the old connection.
TEST_F(ClusterSourceTest, ARequestWithoutAnAnswerHasAllConnectionsTried) {
  sync();
  pass(14'000);
  source_->rescan();
  pass(20'000);
  EXPECT_EQ(transport_.distrusts, 1) << "discovery has no answer";
  ASSERT_NE(transport_.find("/livez"), nullptr);
  pass(200);
  const std::size_t before = transport_.paths.size();
  transport_.connection = 2;
  answer_discovery();
  transport_.answer_whole("/livez", 200, "");
  std::size_t watches = 0;
  for (std::size_t i = before; i < transport_.paths.size(); ++i)
    watches += transport_.paths[i].contains("watch=1") ? 1U : 0U;
  EXPECT_EQ(watches, 5U) << "all of them, over the connection that works";
}

TEST_F(ClusterSourceTest, KeepsAQuietConnectionThatAnswers) {
  sync();
  const std::size_t before = transport_.paths.size();
  for (int i = 0; i < 55; ++i) {
    pass(1'000);
    transport_.answer("/livez", i < 30 ? 200 : 403, "");
  }
  EXPECT_EQ(transport_.distrusts, 0);
  EXPECT_EQ(transport_.paths.size() - before, 2U) << "one small request in 25 s";
}

TEST_F(ClusterSourceTest, ProbesNoConnectionThatBringsEvents) {
  sync();
  for (int i = 0; i < 90; ++i) {
    transport_.send(kServices, event("MODIFIED", service("web", 101 + i)));
    pass(1'000);
    ASSERT_EQ(transport_.find("/livez"), nullptr);
  }
}

TEST_F(ClusterSourceTest, ProbesNothingWithoutHttp2) {
  transport_.is_multiplexed = false;
  sync();
  pass(39'000);
  EXPECT_EQ(transport_.find("/livez"), nullptr);
}

TEST_F(ClusterSourceTest, GivesUpADiscoveryThatDoesNotEnd) {
  source_->start();
  ASSERT_TRUE(transport_.begin("/apis/"));
  const std::string part(1 << 20, 'x');
  int parts = 0;
  while (parts < 100 && transport_.send("/apis/", part)) ++parts;
  EXPECT_LT(parts, 10);
  EXPECT_THAT(source_->status().last_error, HasSubstr("an answer is longer than 8388608 bytes"));
}

TEST_F(ClusterSourceTest, AssumesWhatIsUsualWhereDiscoveryIsForbidden) {
  source_->start();
  for (int i = 0; i < 100; ++i) {
    transport_.answer("/apis", 403, "");
    pass(100);
    if (transport_.find(kSlices) != nullptr) break;
  }
  EXPECT_NE(transport_.find(kServices), nullptr);
  EXPECT_NE(transport_.find(kSlices), nullptr);
}

TEST_F(ClusterSourceTest, MeasuresHowLongEventsTakeAndNotLists) {
  sync();
  EXPECT_EQ(source_->status().cluster->from_arrival.counts[0], 0U);
  transport_.send(kServices, event("ADDED", service("a", 201)));
  pass(5);
  std::uint64_t observed = 0;
  const auto status = source_->status();
  for (const auto count : status.cluster->from_arrival.counts) observed += count;
  EXPECT_EQ(observed, 1U);
}

using Change = ServerReach::Change;
using Trouble = ReflectorStatus::Trouble;

TEST(ServerReachTest, OnlyOneAsksAServerThatDoesNotAnswer) {
  ServerReach reach;
  const int first = 0;
  const int second = 0;
  EXPECT_TRUE(reach.may_ask(&first));
  EXPECT_TRUE(reach.may_ask(&second));
  EXPECT_EQ(reach.note(&first, Trouble::Unreachable, "refused", Milliseconds(0)), Change::Lost);
  EXPECT_TRUE(reach.may_ask(&first));
  EXPECT_FALSE(reach.may_ask(&second));
  reach.forget(&first);
  EXPECT_TRUE(reach.may_ask(&second));
  EXPECT_FALSE(reach.may_ask(&first));
}

TEST(ServerReachTest, TellsOfEachChangeOnce) {
  ServerReach reach;
  const int who = 0;
  EXPECT_EQ(reach.note(&who, Trouble::Forbidden, "", Milliseconds(0)), Change::Found);
  EXPECT_EQ(reach.note(&who, Trouble::None, "", Milliseconds(0)), Change::None);
  EXPECT_EQ(reach.note(&who, Trouble::Unreachable, "a", Milliseconds(1'000)), Change::Lost);
  EXPECT_EQ(reach.note(&who, Trouble::Unreachable, "b", Milliseconds(2'000)), Change::None);
  EXPECT_EQ(reach.error(Milliseconds(4'500)), "the API server has not answered for 3 s: b");
  EXPECT_EQ(reach.note(&who, Trouble::None, "", Milliseconds(5'000)), Change::Regained);
  EXPECT_TRUE(reach.is_reached());
  EXPECT_EQ(reach.error(Milliseconds(5'000)), "");
}

// A server that does not answer is looked for at the wrong end when it was never asked.
TEST(ServerReachTest, TellsAServerThatIsNotAskedFromOneThatDoesNotAnswer) {
  using Silence = ServerReach::Silence;
  ServerReach reach;
  const int who = 0;
  const auto note = [&](const char* error, int now, Silence silence) {
    return reach.note(&who, Trouble::Unreachable, error, Milliseconds(now), silence);
  };
  EXPECT_EQ(note("no kubeconfig", 1'000, Silence::Unasked), Change::Lost);
  EXPECT_EQ(note("no token", 2'000, Silence::Unasked), Change::None);
  EXPECT_EQ(reach.error(Milliseconds(3'000)),
            "the API server could not be asked for 2 s: no token");
  EXPECT_EQ(note("refused", 4'000, Silence::Unanswered), Change::Lost);
  EXPECT_EQ(reach.error(Milliseconds(6'000)), "the API server has not answered for 2 s: refused");
  EXPECT_EQ(reach.note(&who, Trouble::None, "", Milliseconds(7'000)), Change::Regained);
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
