// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/slice_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Milliseconds kStart{1'000'000};
const std::string kLabelled = "slices[headless]";

KubeService headless_service(const std::string& name, const std::string& ns = "shop") {
  KubeService service;
  service.meta.ns = ns;
  service.meta.name = name;
  service.headless = true;
  return service;
}

KubeService other_service(const std::string& name) {
  KubeService service = headless_service(name);
  service.headless = false;
  return service;
}

// The names that are watched, of all groups.
std::set<std::string> names_of(const std::vector<SliceGroup>& groups) {
  std::set<std::string> names;
  for (const auto& group : groups) names.insert(group.names.begin(), group.names.end());
  return names;
}

class SliceSearchTest : public ::testing::Test {
 protected:
  // Lists all groups, which have no slices but `found`.
  void list_groups(Milliseconds now, const std::vector<std::uint64_t>& found = {}) {
    for (std::size_t i = 0; i < search_.regroup(now).size(); ++i)
      search_.retain_found(i, found, now);
  }
  // The names beyond the standing groups.
  std::set<std::string> regroup(Milliseconds now) {
    const auto& groups = search_.regroup(now);
    if (groups.size() <= SliceSearch::kStandingGroups) return {};
    return names_of({groups.begin() + SliceSearch::kStandingGroups, groups.end()});
  }
  // Fills the standing groups: what comes next must leave when it is settled.
  void fill_standing_groups() {
    const std::string name(SliceSearch::kMaxNamesSize / 2 - 3, 'a');
    for (std::uint64_t i = 0; i < 2 * SliceSearch::kStandingGroups; ++i) {
      search_.note_service(1'000 + i, headless_service(name));
      search_.note_labelled(kLabelled, 1'000 + i, 1'000 + i);
    }
    list_groups(kStart - SliceSearch::kGrace);
    search_.regroup(kStart);
  }
  static constexpr std::size_t kNext = SliceSearch::kStandingGroups;  // the group of the next

  SliceSearch search_{{}};
};

TEST_F(SliceSearchTest, WatchesSettledServicesWhileThereIsRoom) {
  EXPECT_FALSE(search_.note_service(1, other_service("db")));
  EXPECT_THAT(search_.regroup(kStart), IsEmpty());
  search_.note_service(1, headless_service("db"));
  search_.note_labelled(kLabelled, 10, 1);
  list_groups(kStart);
  EXPECT_THAT(names_of(search_.regroup(kStart + SliceSearch::kGrace)), ElementsAre("db"));
  EXPECT_EQ(search_.next_change(), std::nullopt);
}

TEST_F(SliceSearchTest, LooksForAServiceThatHasBecomeHeadlessAndLeavesItWhenItIsSettled) {
  fill_standing_groups();
  EXPECT_THAT(regroup(kStart), IsEmpty());
  EXPECT_TRUE(search_.note_service(1, headless_service("db")));
  EXPECT_FALSE(search_.note_service(1, headless_service("db")));
  search_.note_labelled(kLabelled, 10, 1);
  list_groups(kStart);
  EXPECT_THAT(regroup(kStart), ElementsAre("db"));
  EXPECT_EQ(search_.next_change(), kStart + SliceSearch::kGrace);
  const auto settled = kStart + SliceSearch::kGrace;
  EXPECT_THAT(regroup(settled), IsEmpty());
  EXPECT_EQ(search_.next_change(), settled + SliceSearch::kRecheck);
  EXPECT_THAT(regroup(settled + SliceSearch::kRecheck), ElementsAre("db"));
}

TEST_F(SliceSearchTest, StaysWithAServiceThatHasNoSliceWithTheLabel) {
  fill_standing_groups();
  search_.note_service(1, headless_service("db"));
  list_groups(kStart);
  const auto later = kStart + 10 * SliceSearch::kGrace;
  EXPECT_THAT(regroup(later), ElementsAre("db"));
  EXPECT_EQ(search_.next_change(), std::nullopt);
  search_.note_labelled(kLabelled, 10, 1);
  EXPECT_THAT(regroup(later), IsEmpty());
  EXPECT_TRUE(search_.forget_labelled(kLabelled, 10));
  EXPECT_THAT(regroup(later), ElementsAre("db"));
}

TEST_F(SliceSearchTest, StaysWithAServiceOfWhichItFoundASliceWithoutTheLabel) {
  fill_standing_groups();
  search_.note_service(1, headless_service("db"));
  search_.note_labelled(kLabelled, 10, 1);
  search_.regroup(kStart);
  EXPECT_TRUE(search_.note_found(kNext, 11, 1));
  search_.retain_found(kNext, {11}, kStart);
  const auto later = kStart + 2 * SliceSearch::kGrace;
  EXPECT_THAT(regroup(later), ElementsAre("db"));
  search_.forget_found(kNext, 11);
  EXPECT_THAT(regroup(later), IsEmpty());
}

TEST_F(SliceSearchTest, TakesSlicesOfHeadlessServicesOnly) {
  search_.note_service(1, headless_service("db"));
  search_.regroup(kStart);
  EXPECT_FALSE(search_.note_found(0, 20, 2)) << "a Service of that name in another namespace";
  EXPECT_TRUE(search_.note_service(2, headless_service("db", "other")));
  const std::uint64_t before = search_.regroup(kStart)[0].revision;
  EXPECT_TRUE(search_.note_found(0, 20, 2));
  EXPECT_EQ(search_.regroup(kStart)[0].revision, before);
  search_.note_service(2, other_service("db"));
  EXPECT_FALSE(search_.note_found(0, 20, 2));
}

TEST_F(SliceSearchTest, ListsAgainWhenTheNameIsWatchedAlready) {
  search_.note_service(1, headless_service("db"));
  const std::vector<SliceGroup> first = search_.regroup(kStart);
  search_.note_service(2, headless_service("db", "other"));
  const std::vector<SliceGroup> second = search_.regroup(kStart);
  EXPECT_EQ(first[0].names, second[0].names);
  EXPECT_NE(first[0].revision, second[0].revision);
}

TEST_F(SliceSearchTest, ListsAgainWhenAServiceComesAgainWhileItsNameIsWatched) {
  search_.note_service(1, headless_service("db"));
  list_groups(kStart);
  const std::uint64_t before = search_.regroup(kStart)[0].revision;
  search_.forget_service(1);
  EXPECT_FALSE(search_.note_found(0, 10, 1)) << "nobody keeps this slice";
  EXPECT_TRUE(search_.note_service(1, headless_service("db")));
  EXPECT_TRUE(search_.note_found(0, 11, 1));
  EXPECT_NE(search_.regroup(kStart)[0].revision, before) << "slice 10 is missing";
}

TEST_F(SliceSearchTest, ChangesNoGroupThatGainsNothing) {
  for (std::uint64_t i = 0; i < 10; ++i)
    search_.note_service(i, headless_service("db-" + std::to_string(i)));
  const std::vector<SliceGroup> before = search_.regroup(kStart);
  search_.forget_service(3);
  EXPECT_EQ(search_.regroup(kStart), before);
}

TEST_F(SliceSearchTest, TheNamesOfAGroupFitIntoAUrl) {
  for (std::uint64_t i = 0; i < 500; ++i)
    search_.note_service(i, headless_service(std::string(50, 'a') + std::to_string(i)));
  const auto& groups = search_.regroup(kStart);
  for (const auto& group : groups) {
    std::size_t size = 0;
    for (const auto& name : group.names) size += name.size() + 3;
    EXPECT_LE(size, SliceSearch::kMaxNamesSize);
  }
  EXPECT_THAT(names_of(groups), SizeIs(500));
  EXPECT_EQ(search_.waiting(), 0U);
}

// Ten times as many Services as the groups hold: each is watched sooner or later, one with a find
// always.
TEST_F(SliceSearchTest, ServicesTakeTurnsWhenThereAreTooManyAndFindsStay) {
  constexpr std::size_t kServices = 10 * SliceSearch::kMaxGroups * SliceSearch::kMaxNamesSize / 60;
  for (std::uint64_t i = 0; i < kServices; ++i)
    search_.note_service(i, headless_service(std::string(50, 'a') + std::to_string(i)));
  std::set<std::string> seen;
  Milliseconds now = kStart;
  std::string found;
  for (int turn = 0; turn < 15; ++turn) {
    const auto& groups = search_.regroup(now);
    EXPECT_LE(groups.size(), SliceSearch::kMaxGroups);
    const std::set<std::string> names = names_of(groups);
    if (found.empty()) {
      found = groups[0].names[0];
      ASSERT_TRUE(search_.note_found(0, 99, std::stoull(found.substr(50))));
    }
    EXPECT_TRUE(names.contains(found)) << turn;
    seen.insert(names.begin(), names.end());
    for (std::size_t i = 0; i < groups.size(); ++i) search_.retain_found(i, {99}, now);
    ASSERT_TRUE(search_.next_change());
    EXPECT_GT(*search_.next_change(), now);
    now = std::max(now + SliceSearch::kGrace, *search_.next_change());
  }
  EXPECT_THAT(seen, SizeIs(kServices));
}

// The label is no proof: after a gap in the watch a Service may be another one of its name, and its
// slices may lack the label, while the labelled ones of the former are not gone yet.
class RecheckTest : public SliceSearchTest {
 protected:
  // Every Service has a slice with the label; those of `unlabelled_` have one without it, too.
  void have_settled_services(std::uint64_t count) {
    fill_standing_groups();
    for (std::uint64_t i = 0; i < count; ++i) {
      search_.note_service(kFirst + i, headless_service("service-" + std::to_string(kFirst + i)));
      search_.note_labelled(kLabelled, kFirst + i, kFirst + i);
    }
    run_until(kStart + 20 * SliceSearch::kGrace);
    lists_ = 0;
  }
  // As the source does: lists what has changed, and comes again when there is work.
  void run_until(Milliseconds end) {
    while (now_ <= end) {
      const std::vector<SliceGroup> groups = searched_->regroup(now_);
      listed_.resize(groups.size());
      for (std::size_t i = 0; i < groups.size(); ++i)
        if (!groups[i].names.empty() && listed_[i] != groups[i].revision) list(i, groups[i]);
      const auto next = searched_->next_change();
      now_ = std::max(now_ + Milliseconds(100), next.value_or(end + Milliseconds(1)));
    }
  }
  void list(std::size_t index, const SliceGroup& group) {
    ++lists_;
    listed_[index] = group.revision;
    std::vector<std::uint64_t> slices;
    for (const std::uint64_t service : unlabelled_)
      if (std::ranges::binary_search(group.names, "service-" + std::to_string(service))) {
        slices.push_back(1'000'000 + service);
        if (searched_->note_found(index, slices.back(), service))
          found_at_.try_emplace(service, now_);
      }
    searched_->retain_found(index, slices, now_);
  }

  SliceSearch* searched_ = &search_;
  static constexpr std::uint64_t kFirst = 10'000;  // other keys than the standing groups'
  Milliseconds now_ = kStart;
  std::set<std::uint64_t> unlabelled_;
  std::vector<std::uint64_t> listed_;
  std::map<std::uint64_t, Milliseconds> found_at_;
  int lists_ = 0;
};

TEST_F(RecheckTest, FindsAnUnlabelledSliceOfASettledServiceWhateverTheirNumber) {
  have_settled_services(6'000);
  const Milliseconds begin = now_;
  for (std::uint64_t i = 0; i < 6'000; i += 7) unlabelled_.insert(kFirst + i);
  listed_.clear();  // a watch tells of those that are watched
  run_until(begin + SliceSearch::kRecheck + SliceSearch::kGrace);
  ASSERT_THAT(found_at_, SizeIs(unlabelled_.size()));
  for (const auto& [service, at] : found_at_)
    EXPECT_LE(at - begin, SliceSearch::kRecheck + SliceSearch::kMinPause) << service;
  run_until(now_ + SliceSearch::kRecheck);
  EXPECT_TRUE(std::ranges::includes(names_of(search_.regroup(now_)),
                                    std::set{std::string("service-10007")}))
      << "what was found stays watched";
}

TEST_F(RecheckTest, CostsOneListOfEachGroupInEachRound) {
  have_settled_services(2'000);
  run_until(now_ + 6 * SliceSearch::kRecheck);
  // 2,000 names of 16 octets: 9 groups.
  EXPECT_GE(lists_, 6 * 7);
  EXPECT_LE(lists_, 6 * 11);
}

TEST_F(RecheckTest, ACrowdIsCheckedOneGroupInASecond) {
  std::vector<std::string> namespaces;
  for (int i = 0; i < 700; ++i) namespaces.push_back("ns" + std::to_string(i));
  SliceSearch search(namespaces);
  searched_ = &search;
  for (std::uint64_t i = 0; i < namespaces.size(); ++i) {
    search.note_service(i, headless_service("db", namespaces[i]));
    search.note_labelled(kLabelled, i, i);
  }
  run_until(now_ + 2 * SliceSearch::kGrace);
  lists_ = 0;
  run_until(now_ + Milliseconds(60'000));
  EXPECT_LE(lists_, 62) << "a group for each namespace";
  EXPECT_GE(lists_, 50);
}

TEST_F(RecheckTest, NothingIsCheckedAgainWhileAllAreWatched) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    search_.note_service(i, headless_service("service-" + std::to_string(i)));
    search_.note_labelled(kLabelled, i, i);
  }
  run_until(now_ + SliceSearch::kRecheck);
  EXPECT_EQ(lists_, 1);
  EXPECT_FALSE(search_.next_change());
}

TEST_F(SliceSearchTest, GivenNamespacesHaveGroupsOfTheirOwn) {
  SliceSearch search({"a", "b"});
  search.note_service(1, headless_service("db", "a"));
  search.note_service(2, headless_service("db", "b"));
  const auto& groups = search.regroup(kStart);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ((std::set{groups[0].ns, groups[1].ns}), (std::set<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
