// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/saved_registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dnsd/daemon/file_poll.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using registry::OriginChange;
using registry::SavedSource;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<SavedSource> kSources = {{"files", "east", "net1", false}};

std::ptrdiff_t threads() {
  return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task"),
                               std::filesystem::directory_iterator());
}

// A run of the daemon.
struct SavingRun {
  SavingRun(const std::string& state_dir, const std::vector<SavedSource>& sources) {
    saved.open(state_dir, sources);
  }

  void deliver(int first, int count, bool complete = true) {
    registry::SourceBatch batch;
    batch.source = "files";
    batch.complete = complete;
    OriginChange change;
    change.origin = "a.yaml";
    change.effect = OriginChange::Effect::Update;
    for (int i = first; i < first + count; ++i) {
      registry::Namespace object;
      object.meta.name = "n" + std::to_string(i);
      change.resources.push_back(object, 1);
    }
    batch.changes.push_back(std::move(change));
    feed.apply(std::move(batch));
  }
  std::vector<std::string> known() const {
    std::vector<std::string> names;
    registry.current()->resources.for_each(
        [&](const registry::StoredResource& r) { names.emplace_back(r.name()); });
    std::ranges::sort(names);
    return names;
  }

  Log log{{.level = LogLevel::Off}};
  registry::Registry registry{registry::MeshSettings{}};
  RegistryFeed feed{registry, log};
  SavedRegistry saved{registry, feed, log};
};

class SavedRegistryTest : public testing::Test {
 protected:
  SavedRegistryTest() {
    std::filesystem::create_directory(directory_);
    run_.emplace(directory_, kSources);
  }
  ~SavedRegistryTest() override { std::filesystem::remove_all(directory_); }

  // Ends what runs, as a crash does, and starts anew with these sources.
  void start(const std::vector<SavedSource>& sources = kSources) {
    run_.reset();
    run_.emplace(directory_, sources);
  }
  FileVersion version() const { return FileVersion::of(directory_ + "/snapshot"); }
  // One second passes.  Returns whether the state was written.
  bool tick(std::chrono::seconds passed = 1s) {
    const FileVersion before = version();
    const std::ptrdiff_t others = threads();
    run_->saved.tick(now_ += passed);
    while (threads() > others) std::this_thread::yield();
    return version() != before;
  }
  bool is_written_at_the_end() {
    const FileVersion before = version();
    run_->saved.close();
    return version() != before;
  }
  // Longer than the pause after any write.
  void pause() { now_ += 10'000s; }

  const std::string directory_ =
      testing::TempDir() + "saved_registry_test-" + std::to_string(getpid());
  std::optional<SavingRun> run_;
  SavedRegistry::Time now_{100'000s};
};

TEST_F(SavedRegistryTest, WritesAChangeOnceNothingChangesAnyMore) {
  EXPECT_FALSE(tick());
  run_->deliver(1, 1);
  EXPECT_FALSE(tick()) << "more may come";
  run_->deliver(2, 1);
  EXPECT_FALSE(tick());
  EXPECT_TRUE(tick());
  pause();
  EXPECT_FALSE(tick()) << "it is the same";
  EXPECT_FALSE(is_written_at_the_end()) << "it is the same";
  start();
  EXPECT_THAT(run_->known(), ElementsAre("n1", "n2"));
  EXPECT_FALSE(is_written_at_the_end()) << "nothing is new";
}

TEST_F(SavedRegistryTest, WritesAConstantChangeEveryTenSecondsAtMost) {
  std::vector<int> written;
  for (int second = 1; second <= 40; ++second) {
    run_->deliver(second, 1);
    if (tick()) written.push_back(second);
  }
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(written.front(), 11);
  for (std::size_t i = 1; i < written.size(); ++i) EXPECT_GE(written[i], written[i - 1] + 11);
}

TEST_F(SavedRegistryTest, WritesAtTheEndWhatIsNew) {
  run_->deliver(1, 1);
  EXPECT_TRUE(is_written_at_the_end());
  start();
  EXPECT_THAT(run_->known(), ElementsAre("n1"));
}

// An interrupted commit leaves a state that is neither the one of before nor the one of after.
TEST_F(SavedRegistryTest, KeepsTheStateOfBeforeACommitThatTheEndInterrupts) {
  run_->deliver(1, 1);
  tick();
  EXPECT_TRUE(tick());
  run_->registry.set_interrupt([] { return true; });
  run_->deliver(2, 5'000);
  ASSERT_TRUE(run_->feed.is_interrupted());
  pause();
  EXPECT_FALSE(tick());
  EXPECT_FALSE(tick());
  EXPECT_FALSE(is_written_at_the_end());
  start();
  EXPECT_THAT(run_->known(), ElementsAre("n1"));
}

TEST_F(SavedRegistryTest, TriesAgainAfterAFailure) {
  std::filesystem::remove_all(directory_);
  run_->deliver(1, 1);
  tick();
  EXPECT_FALSE(tick());
  tick();
  EXPECT_EQ(run_->saved.status().failures, 1U);
  EXPECT_FALSE(run_->saved.status().trouble.empty());
  std::filesystem::create_directory(directory_);
  EXPECT_FALSE(tick()) << "it tried a moment ago";
  EXPECT_TRUE(tick(SavedRegistry::kPauseAfterFailure));
  tick();
  EXPECT_EQ(run_->saved.status().failures, 1U);
  EXPECT_TRUE(run_->saved.status().trouble.empty());
}

TEST_F(SavedRegistryTest, RestoresTheSourcesThatAreTheSame) {
  run_->deliver(1, 1);
  EXPECT_TRUE(is_written_at_the_end());
  const SavedSource& source = kSources[0];
  for (const SavedSource& other : {SavedSource{"more", source.cluster, source.network, false},
                                   SavedSource{source.name, "west", source.network, false},
                                   SavedSource{source.name, source.cluster, "net2", false}}) {
    SCOPED_TRACE(other.name + " " + other.cluster + " " + other.network);
    start({other});
    EXPECT_THAT(run_->known(), IsEmpty());
    EXPECT_FALSE(run_->feed.is_known("files"));
    start({other, source});
    EXPECT_THAT(run_->known(), ElementsAre("n1"));
    EXPECT_TRUE(run_->feed.is_known("files"));
  }
}

// The state of a source with another cluster or network must not be that of the old one.
TEST_F(SavedRegistryTest, WritesTheStateOfOtherSourcesAndOfAnotherDirectory) {
  run_->deliver(1, 1);
  tick();
  EXPECT_TRUE(tick());
  pause();
  run_->saved.reconfigure(directory_, kSources);
  tick();
  EXPECT_FALSE(tick()) << "it is the same";
  const std::vector<SavedSource> others = {{"files", "west", "net1", false}};
  run_->saved.reconfigure(directory_, others);
  tick();
  EXPECT_TRUE(tick());
  start(others);
  EXPECT_THAT(run_->known(), ElementsAre("n1"));
  std::filesystem::create_directory(directory_ + "/other");
  run_->saved.reconfigure(directory_ + "/other", others);
  EXPECT_FALSE(is_written_at_the_end());
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/other/snapshot"));
}

}  // namespace
}  // namespace meshdns::dnsd
