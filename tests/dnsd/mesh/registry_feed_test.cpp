// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/registry_feed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <uv.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace meshdns::dnsd {
namespace {

using registry::OriginChange;
using Effect = registry::OriginChange::Effect;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

registry::Resource ns(const std::string& name) {
  registry::Namespace object;
  object.meta.name = name;
  return object;
}

// A feed that has taken up "old-services" and "old-pods" of a cluster's two collections, and what
// another source delivered.
class RegistryFeedTest : public testing::Test {
 protected:
  RegistryFeedTest() {
    registry::SavedSnapshot saved;
    saved.sources = {{"cluster", "", "", true}, {"files", "", "", false}};
    saved.wanted = {true, true};
    const auto add = [&](const std::string& origin, std::uint32_t source, const std::string& name) {
      saved.origins.push_back({origin, source});
      saved.resources.push_back(
          registry::StoredResource::encode(ns(name), registry_.origin(origin), 1));
    };
    add("services", 0, "old-services");
    add("pods", 0, "old-pods");
    add("a.yaml", 1, "old-file");
    feed_.restore(std::move(saved));
  }

  static OriginChange change(const std::string& origin, Effect effect,
                             std::optional<std::string> name = {}) {
    OriginChange change;
    change.origin = origin;
    change.effect = effect;
    if (name) change.resources.push_back(ns(*name), 1);
    return change;
  }
  void deliver(const std::string& source, bool complete, std::vector<OriginChange> changes) {
    feed_.apply({source, std::move(changes), complete});
  }
  std::vector<std::string> known() const {
    std::vector<std::string> names;
    registry_.current()->resources.for_each(
        [&](const registry::StoredResource& r) { names.emplace_back(r.name()); });
    std::ranges::sort(names);
    return names;
  }

  Log log_{{.level = LogLevel::Error}};
  registry::Registry registry_{registry::MeshSettings{}};
  RegistryFeed feed_{registry_, log_};
};

TEST_F(RegistryFeedTest, ServesAnEarlierRunUntilItsSourcesAreComplete) {
  EXPECT_THAT(known(), ElementsAre("old-file", "old-pods", "old-services"));
  EXPECT_TRUE(feed_.is_restored());
  EXPECT_TRUE(feed_.is_known("cluster"));
  EXPECT_FALSE(feed_.is_complete("cluster"));
  EXPECT_FALSE(feed_.is_known("files")) << "it had not been complete in that run either";
  deliver("cluster", false, {change("services", Effect::Replace, "new-services")});
  EXPECT_THAT(known(), ElementsAre("new-services", "old-file", "old-pods"));
  deliver("cluster", true, {change("pods", Effect::Replace, "new-pods")});
  EXPECT_THAT(known(), ElementsAre("new-pods", "new-services", "old-file"));
  EXPECT_TRUE(feed_.is_restored()) << "the other source has not spoken yet";
  deliver("files", true, {});
  EXPECT_THAT(known(), ElementsAre("new-pods", "new-services"));
  EXPECT_FALSE(feed_.is_restored());
}

TEST_F(RegistryFeedTest, KeepsOriginsThatASourceKeepsAndDropsThoseItNeverMentions) {
  deliver("cluster", true, {change("services", Effect::Keep)});
  EXPECT_THAT(known(), ElementsAre("old-file", "old-services"));
}

TEST_F(RegistryFeedTest, KeepsOriginsThatASourceCountsAsItsOwnWithoutAChange) {
  registry::SourceBatch batch;
  batch.source = "cluster";
  batch.complete = true;
  batch.origins = {"services"};
  feed_.apply(std::move(batch));
  EXPECT_THAT(known(), ElementsAre("old-file", "old-services"));
}

TEST_F(RegistryFeedTest, TheStateOfASourceThatIsNoLongerConfiguredGoes) {
  feed_.set_sources({"cluster"});
  EXPECT_THAT(known(), ElementsAre("old-pods", "old-services"));
  EXPECT_FALSE(feed_.is_known("files"));
  feed_.set_sources({});
  EXPECT_THAT(known(), IsEmpty());
  EXPECT_FALSE(feed_.is_restored());
}

// Two `files` sources, one with a folder and one with a file of that folder.
TEST_F(RegistryFeedTest, KeepsObjectsOfTwoSourcesUntilBothAreGone) {
  deliver("cluster", true, {});
  deliver("files", true, {change("a.yaml", Effect::Replace, "shared")});
  deliver("more files", true, {change("a.yaml", Effect::Replace, "shared")});
  feed_.set_sources({"cluster", "more files"});
  EXPECT_THAT(known(), ElementsAre("shared"));
  feed_.set_sources({"cluster"});
  EXPECT_THAT(known(), IsEmpty());
}

TEST_F(RegistryFeedTest, TellsWhichSourceAnOriginIsOf) {
  deliver("files", true, {change("b.yaml", Effect::Replace, "new")});
  const auto saved = feed_.saved_sources({{"files", "", "", false}, {"cluster", "", "", false}});
  ASSERT_EQ(saved.sources.size(), 2U);
  EXPECT_TRUE(saved.sources[0].complete);
  EXPECT_TRUE(saved.sources[1].complete) << "known from an earlier run counts";
  const auto source_of = [&](const std::string& origin) {
    return saved.source_of.at(registry_.origin(origin));
  };
  EXPECT_EQ(source_of("b.yaml"), 0U);
  EXPECT_EQ(source_of("services"), 1U);
  EXPECT_EQ(source_of("a.yaml"), registry::SavedSources::kNone);
}

TEST_F(RegistryFeedTest, KnowsTheOriginsThatAreKeptBecauseTheyAreBroken) {
  OriginChange broken = change("a.yaml", Effect::Keep);
  broken.findings.emplace_back().message = "line 3: not YAML";
  deliver("files", true, {broken, change("b.yaml", Effect::Replace, "new")});
  const auto error_of = [&](const char* origin) {
    return feed_.error_of("ServiceEntry shop/any", origin);
  };
  EXPECT_THAT(error_of("a.yaml"), HasSubstr("line 3: not YAML"));
  EXPECT_EQ(error_of("b.yaml"), "");
  deliver("files", true, {change("a.yaml", Effect::Replace, "mended")});
  EXPECT_EQ(error_of("a.yaml"), "");
  deliver("files", true, {broken});
  feed_.set_sources({"cluster"});
  EXPECT_EQ(error_of("a.yaml"), "");
}

TEST_F(RegistryFeedTest, ASourceWhoseCommitWasInterruptedIsNotRead) {
  deliver("files", true, {});
  ASSERT_TRUE(feed_.is_complete("files"));
  registry_.set_interrupt([] { return true; });
  OriginChange large = change("b.yaml", Effect::Replace);
  for (int i = 0; i < 5'000; ++i) large.resources.push_back(ns("n" + std::to_string(i)), 1);
  deliver("cluster", true, {large});
  EXPECT_TRUE(feed_.is_interrupted());
  EXPECT_FALSE(feed_.is_complete("cluster"));
  EXPECT_TRUE(feed_.is_complete("files"));
}

TEST_F(RegistryFeedTest, LacksEndpointsWhileASourceDoes) {
  const auto deliver_without = [&](const std::string& source, bool lacks_endpoints) {
    registry::SourceBatch batch;
    batch.source = source;
    batch.lacks_endpoints = lacks_endpoints;
    feed_.apply(std::move(batch));
    return feed_.lacks_endpoints();
  };
  EXPECT_FALSE(deliver_without("cluster", false));
  EXPECT_TRUE(deliver_without("cluster", true));
  EXPECT_TRUE(deliver_without("files", true));
  EXPECT_TRUE(deliver_without("cluster", false));
  EXPECT_FALSE(deliver_without("files", false));
  EXPECT_TRUE(deliver_without("files", true));
  feed_.set_sources({"cluster"});
  EXPECT_FALSE(feed_.lacks_endpoints());
}

TEST_F(RegistryFeedTest, LacksPoliciesWhileASourceDoes) {
  const auto deliver_without = [&](const std::string& source, bool lacks_policies) {
    registry::SourceBatch batch;
    batch.source = source;
    batch.lacks_policies = lacks_policies;
    feed_.apply(std::move(batch));
    return feed_.lacks_policies();
  };
  EXPECT_FALSE(deliver_without("files", false));
  EXPECT_TRUE(deliver_without("cluster", true));
  EXPECT_TRUE(deliver_without("files", false));
  feed_.set_sources({"files"});
  EXPECT_FALSE(feed_.lacks_policies());
}

// A file is told whenever it was read; an object of a collection, once.
TEST_F(RegistryFeedTest, CountsErrorsAndWarnings) {
  using registry::Severity;
  const auto deliver_with = [&](Effect effect, const std::vector<Severity>& severities) {
    OriginChange found = change("a.yaml", effect);
    for (const Severity severity : severities) {
      registry::Finding& finding = found.findings.emplace_back();
      finding.severity = severity;
      finding.object = "shop/x" + std::to_string(found.findings.size());
    }
    deliver("files", true, {std::move(found)});
    return std::pair(feed_.counters().errors, feed_.counters().warnings);
  };
  using Counts = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(deliver_with(Effect::Update, {Severity::Note}), Counts(0, 0));
  EXPECT_EQ(deliver_with(Effect::Update, {Severity::Note, Severity::Warning}), Counts(0, 1));
  EXPECT_EQ(deliver_with(Effect::Update, {Severity::Note, Severity::Warning}), Counts(0, 1));
  EXPECT_EQ(deliver_with(Effect::Update, {Severity::Error, Severity::Warning}), Counts(1, 1));
  EXPECT_EQ(deliver_with(Effect::Replace, {Severity::Error, Severity::Warning, Severity::Note}),
            Counts(2, 2));
  EXPECT_EQ(deliver_with(Effect::Replace, {Severity::Error, Severity::Note}), Counts(3, 2));
  EXPECT_EQ(feed_.findings().at("a.yaml").size(), 2U);
  deliver_with(Effect::Replace, {});
  EXPECT_THAT(feed_.findings(), IsEmpty());
}

struct EndlessLookups final : resolver::Lookups {
  std::unique_ptr<resolver::Lookup> start(const std::string&, const std::string&, resolver::Family,
                                          resolver::LookupCallback) override {
    return std::make_unique<resolver::Lookup>();
  }
};

TEST_F(RegistryFeedTest, LooksUpTheNamesThatHostsUseAndNoOthers) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  EndlessLookups lookups;
  {
    resolver::NameResolver resolver(
        &loop, lookups, {}, [] { return resolver::TimePoint(); }, feed_);
    feed_.set_resolver(&resolver);
    const auto entry = [](const std::string& name, const std::vector<std::string>& endpoints) {
      registry::ServiceEntry object;
      object.meta.name = name;
      object.meta.ns = "shop";
      object.hosts = {name + ".example.org"};
      object.resolution = registry::Resolution::Dns;
      for (const std::string& endpoint : endpoints)
        object.endpoints.emplace_back().address = endpoint;
      return object;
    };
    const auto looked_up = [&] {
      std::vector<std::string> names;
      for (const auto& known : resolver.status()) names.push_back(known.ns + " " + known.name.host);
      return names;
    };
    OriginChange both = change("a.yaml", Effect::Replace);
    both.resources.push_back(entry("api", {"a.example.net", "b.example.net"}), 1);
    both.resources.push_back(entry("web", {"b.example.net", "c.example.net"}), 1);
    deliver("files", true, {both});
    EXPECT_THAT(looked_up(),
                ElementsAre("shop a.example.net", "shop b.example.net", "shop c.example.net"));
    OriginChange changed = change("a.yaml", Effect::Replace);
    changed.resources.push_back(entry("api", {"a.example.net", "d.example.net"}), 1);
    changed.resources.push_back(entry("web", {"b.example.net", "192.0.2.1"}), 1);
    deliver("files", true, {changed});
    EXPECT_THAT(looked_up(),
                ElementsAre("shop a.example.net", "shop b.example.net", "shop d.example.net"));
    deliver("files", true, {change("a.yaml", Effect::Remove)});
    EXPECT_THAT(looked_up(), IsEmpty());
    feed_.set_resolver(nullptr);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace meshdns::dnsd
