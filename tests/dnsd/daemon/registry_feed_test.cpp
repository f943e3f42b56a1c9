// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/registry_feed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

using registry::OriginChange;
using Effect = registry::OriginChange::Effect;
using testing::ElementsAre;
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
    if (name) change.resources.push_back({ns(*name), 1});
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
  EXPECT_THAT(feed_.held_origins(), ElementsAre("a.yaml"));
  deliver("files", true, {change("a.yaml", Effect::Replace, "mended")});
  EXPECT_THAT(feed_.held_origins(), IsEmpty());
  deliver("files", true, {broken});
  feed_.set_sources({"cluster"});
  EXPECT_THAT(feed_.held_origins(), IsEmpty());
}

}  // namespace
}  // namespace meshdns::dnsd
