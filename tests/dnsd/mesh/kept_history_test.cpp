// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/answer/explanation.hpp"
#include "dnsd/mesh/past_registry.hpp"
#include "registry/tables/persistent_vips.hpp"
#include "tests/fewer.hpp"
#include "tests/registry/core/changing_objects.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using meshdns::test::fewer;
using registry::ObjectForms;
using registry::ResolvedName;
using testing::HasSubstr;

constexpr std::int64_t kStart = 1'700'000'000;

// Returns the views of all clients, and explanations for the default one.
std::vector<std::string> everything_answered(const registry::Registry& registry) {
  std::vector<std::string> lines = registry::all_answers(registry);
  const auto& snapshot = registry.current();
  const QuerySettings settings = QuerySettings::from(Config{});
  for (const char* const name : registry::kChangingNames) {
    const auto explanation = explain({*snapshot, *snapshot->default_client, settings, name});
    for (auto& line : to_lines(*explanation, Audience::Operator)) lines.push_back(std::move(line));
  }
  return lines;
}

// A daemon's registry that keeps its history; a second passes with each tick.
class KeepingRun {
 public:
  explicit KeepingRun(std::string state_dir, const registry::MeshSettings& settings = {},
                      const registry::ClientSettings& clients = {})
      : registry(settings), state_dir_(std::move(state_dir)) {
    registry.set_clients(clients);
    changes_ =
        registry.controller().attach([this](const registry::Changes& changes,
                                            const registry::Snapshot&) { answers.add(changes); });
    answers.begin(*registry.current(), now);
  }

  void tick(std::chrono::seconds passed = 1s) {
    now += passed.count();
    time_ += passed;
    answers.look(*registry.current(), now);
    history.tick(time_, now, state_dir_, config, answers);
    history.finish();
  }
  void close() { history.close(now, answers); }
  // Gives the origin's one object another form; empty: none.
  void put_name(const std::string& name, const std::string& address) {
    registry::SourceBatch batch;
    batch.source = "files";
    registry::OriginChange& change = batch.changes.emplace_back();
    change.origin = name + ".yaml";
    if (!address.empty()) {
      registry::ServiceEntry entry;
      entry.meta.ns = "shop";
      entry.meta.name = name;
      entry.hosts = {name + ".example.org"};
      entry.addresses = {*IpPrefix::parse(address)};
      change.resources.push_back(entry, 3);
    }
    feed.apply(std::move(batch));
  }

  Log log{{.level = LogLevel::Off}};
  registry::Registry registry;
  RegistryFeed feed{registry, log};
  AnswerHistory answers;
  HistoryConfig config;
  std::int64_t now = kStart;
  KeptHistory history{registry, feed, log};

 private:
  const std::string state_dir_;
  KeptHistory::Time time_{};
  std::shared_ptr<const registry::Controller::Handler> changes_;
};

class KeptHistoryTest : public testing::Test {
 protected:
  KeptHistoryTest() { std::filesystem::create_directory(directory_); }
  ~KeptHistoryTest() override { std::filesystem::remove_all(directory_); }

  Result<Past> at(std::int64_t time) const { return read_past(directory_, time, {}, {}); }
  // The addresses of NAME.example.org then, or why they are not known.
  std::string address_at(std::int64_t time, const std::string& name = "api") const {
    const auto past = at(time);
    if (!past) return past.error().message;
    const auto& snapshot = past->replay->registry().current();
    const registry::View view(*snapshot, *snapshot->default_client);
    return registry::TestRegistry::describe(view, view.lookup(name + ".example.org"));
  }
  std::uint64_t bytes() const {
    std::uint64_t all = 0;
    for (const auto& file : history_files(directory_)) all += file.bytes;
    return all;
  }

  const std::string directory_ =
      testing::TempDir() + "meshdns-history-" + std::to_string(::getpid());
};

// A world whose changes are those of sources and of lookups.
class RememberedWorld {
 public:
  RememberedWorld(std::string state_dir, unsigned variant, std::mt19937& random)
      : random_(random),
        run_(std::move(state_dir), settings(variant), registry::changing_clients()) {}

  static registry::MeshSettings settings(unsigned variant) {
    registry::MeshSettings settings = registry::changing_settings(variant);
    settings.auto_allocate = variant % 3 == 0   ? registry::AutoAllocate::Off
                             : variant % 3 == 1 ? registry::AutoAllocate::Hash
                                                : registry::AutoAllocate::Persistent;
    return settings;
  }
  void use_persistent_vips() {
    registry::PersistentVipOptions options;
    options.clock = [this] { return run_.now; };
    options.report = [](const std::string&) {};
    run_.feed.follow(run_.registry.set_vip_allocator(
        std::make_unique<registry::PersistentVips>(std::move(options))));
  }

  // Some changes within one second.
  void change() {
    for (std::uint64_t changes = 1 + random_() % 3; changes > 0; --changes) change_object();
    if (random_() % 3 == 0) resolve();
    if (random_() % 8 == 0) run_.registry.settle_networks();
    if (random_() % 8 == 0)
      run_.registry.set_sources({.authoritative = random_() % 2 == 0,
                                 .synced = true,
                                 .policies_unknown = random_() % 4 == 0});
    run_.tick();
  }
  KeepingRun& run() { return run_; }

 private:
  void change_object() {
    const std::size_t which = random_() % objects_.size();
    const std::size_t form = random_() % (objects_[which].forms.size() + 1);
    // Origins come and go; some objects are in two of them.
    const std::string origin = "world-" + std::to_string(which % 5 + random_() % 2) + ".yaml";
    registry::SourceBatch batch;
    batch.source = "files";
    registry::OriginChange change;
    change.origin = origin;
    change.effect = registry::OriginChange::Effect::Update;
    if (form == 0)
      change.removed.push_back(hash_of(key_of(registry::object_in_form(objects_[which], 0))));
    else
      change.resources.push_back(registry::object_in_form(objects_[which], form - 1), 1);
    if (random_() % 12 == 0) {
      change = {};
      change.origin = origin;
      change.effect = registry::OriginChange::Effect::Remove;
    }
    batch.changes.push_back(std::move(change));
    run_.feed.apply(std::move(batch));
  }
  // Lookups end, each with one of several results.
  void resolve() {
    for (const auto& ns : run_.registry.namespaces_with_endpoint_names()) {
      std::vector<ResolvedName> results;
      for (const auto& name : run_.registry.endpoint_names_of(ns)) {
        ResolvedName result;
        result.host = name;
        result.state =
            random_() % 4 == 0 ? ResolvedName::State::Failed : ResolvedName::State::Resolved;
        if (result.state == ResolvedName::State::Resolved)
          result.addresses = {*IpAddress::parse("10.7.0." + std::to_string(1 + random_() % 3))};
        else
          result.reason = "timeout";
        results.push_back(std::move(result));
      }
      run_.feed.on_resolved(ns, std::move(results));
    }
  }

  std::mt19937& random_;
  const std::vector<ObjectForms> objects_ = registry::changing_objects();
  KeepingRun run_;
};

TEST_F(KeptHistoryTest, AReplayAnswersAsWasAnsweredThen) {
  std::mt19937 random(20261128);
  for (unsigned variant = 0; variant < fewer(12U); ++variant) {
    const std::string directory = directory_ + "/" + std::to_string(variant);
    std::filesystem::create_directory(directory);
    RememberedWorld world(directory, variant, random);
    if (variant % 3 == 2) world.use_persistent_vips();
    // Files begin in between, too.
    world.run().config.keep = 240s;
    std::vector<std::pair<std::int64_t, std::vector<std::string>>> answered;
    for (int i = 0; i < 60; ++i) {
      world.change();
      answered.emplace_back(world.run().now, everything_answered(world.run().registry));
    }
    ASSERT_EQ(world.run().history.trouble(), "");
    ASSERT_GT(history_files(directory).size(), 1U);
    for (const auto& [time, expected] : answered) {
      const auto past = read_past(directory, time, RememberedWorld::settings(variant),
                                  registry::changing_clients());
      ASSERT_TRUE(past) << past.error().message;
      ASSERT_EQ(everything_answered(past->replay->registry()), expected)
          << "variant " << variant << ", " << time - kStart << " s after the start";
    }
  }
}

TEST_F(KeptHistoryTest, SaysWhichObjectChangedTheAnswer) {
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.7");
  run.tick();
  const std::int64_t first = run.now;
  run.tick(5s);
  run.put_name("api", "10.0.0.8");
  run.tick();
  run.put_name("api", "");
  run.tick();
  EXPECT_THAT(address_at(first), HasSubstr("10.0.0.7"));
  EXPECT_THAT(address_at(run.now - 2), HasSubstr("10.0.0.7"));
  EXPECT_THAT(address_at(run.now - 1), HasSubstr("10.0.0.8"));
  EXPECT_EQ(address_at(run.now), "none");
  const auto change = last_change_before(directory_, run.now - 1, "api.example.org");
  ASSERT_TRUE(change);
  EXPECT_EQ(change_text(*change),
            "different, from 10.0.0.7 to 10.0.0.8; ServiceEntry shop/api (api.yaml:3)");
  EXPECT_FALSE(last_change_before(directory_, first - 1, "api.example.org"));
  EXPECT_FALSE(last_change_before(directory_, run.now, "other.example.org"));
}

TEST_F(KeptHistoryTest, AFileThatWasCutLosesItsLastRecordOnly) {
  {
    KeepingRun run(directory_);
    for (int i = 1; i <= 3; ++i) {
      run.put_name("api", "10.0.0." + std::to_string(i));
      run.tick();
    }
  }
  const std::string path = history_files(directory_).at(0).path;
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const auto set_content = [&](std::string_view content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  };
  const std::int64_t last = kStart + 3;
  EXPECT_THAT(address_at(last), HasSubstr("10.0.0.3"));
  bool has_two = true;
  std::size_t cuts_of_last = 0;
  for (std::size_t size = whole.size(); size-- > 0;) {
    set_content(std::string_view(whole).substr(0, size));
    const auto past = at(last);
    const std::string address = address_at(last);
    if (has_two && past && address.find("10.0.0.2") != std::string::npos) {
      EXPECT_EQ(past->since, kStart + 2);
      ++cuts_of_last;
      continue;
    }
    // The first and the second record are cut now, one after the other.
    has_two = false;
    if (past)
      EXPECT_THAT(address, HasSubstr("10.0.0.1"));
    else
      EXPECT_THAT(address, HasSubstr("not kept"));
  }
  EXPECT_GT(cuts_of_last, 20U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    set_content(damaged);
    EXPECT_THAT(address_at(last), testing::Not(HasSubstr("10.0.0.3"))) << i;
  }
}

// Returns the addresses of api.example.org after each change, and the number of troubles.
std::pair<std::vector<std::string>, std::size_t> changes_in(const std::string& directory,
                                                            std::uint64_t most_octets) {
  AnswerHistory changes;
  const auto troubles = read_changes(history_files(directory), most_octets, {}, changes);
  std::vector<std::string> addresses;
  for (const AnswerEvent& change : changes.events()) addresses.push_back(change.after);
  return {addresses, troubles.size()};
}

TEST_F(KeptHistoryTest, ChangesOfEarlierRunsAreReadFromTheNewestFilesAndADamagedOneLacksItsOwn) {
  using Addresses = std::vector<std::string>;
  for (int i = 1; i <= 3; ++i) {
    KeepingRun run(directory_);
    run.now += std::int64_t{1'000} * i;
    run.put_name("api", "10.0.0." + std::to_string(i));
    run.tick();
    run.put_name("api", "10.0.1." + std::to_string(i));
    run.tick();
  }
  const Addresses all = {"10.0.0.1", "10.0.1.1", "10.0.0.2", "10.0.1.2", "10.0.0.3", "10.0.1.3"};
  EXPECT_EQ(changes_in(directory_, bytes()), std::pair(all, std::size_t{0}));
  EXPECT_EQ(changes_in(directory_, bytes() - 1),
            std::pair(Addresses(all.begin() + 2, all.end()), std::size_t{0}));
  EXPECT_EQ(changes_in(directory_, 0), std::pair(Addresses(), std::size_t{0}));
  const std::vector<HistoryFile> files = history_files(directory_);
  std::filesystem::resize_file(files[1].path, files[1].bytes - 1);
  EXPECT_EQ(changes_in(directory_, bytes()),
            std::pair(Addresses{"10.0.0.1", "10.0.1.1", "10.0.0.2", "10.0.0.3", "10.0.1.3"},
                      std::size_t{1}));
  std::ofstream(files[0].path) << "meshdns-history 2\n";
  EXPECT_EQ(changes_in(directory_, bytes()),
            std::pair(Addresses{"10.0.0.2", "10.0.0.3", "10.0.1.3"}, std::size_t{2}));
}

TEST_F(KeptHistoryTest, SaysThatARecordIsCut) {
  {
    KeepingRun run(directory_);
    run.put_name("api", "10.0.0.1");
    run.tick();
    run.put_name("api", "10.0.0.2");
    run.tick();
  }
  const HistoryFile file = history_files(directory_).at(0);
  std::filesystem::resize_file(file.path, file.bytes - 1);
  const auto past = at(kStart + 2);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->trouble, file.path + ": its last record is cut short");
}

TEST_F(KeptHistoryTest, NeverTakesMoreThanItsSize) {
  KeepingRun run(directory_);
  run.config.size_bytes = 64 << 10;
  std::mt19937 random(1);
  std::vector<std::pair<std::int64_t, std::string>> answered;
  std::size_t most_files = 0;
  for (int i = 0; i < 4'000; ++i) {
    const std::string address = "10." + std::to_string(random() % 256) + "." +
                                std::to_string(random() % 256) + "." +
                                std::to_string(random() % 256);
    run.put_name("api", address);
    run.tick();
    answered.emplace_back(run.now, address);
    ASSERT_LE(bytes(), run.config.size_bytes);
    most_files = std::max(most_files, history_files(directory_).size());
  }
  EXPECT_EQ(run.history.trouble(), "");
  EXPECT_GE(most_files, 4U);
  const std::int64_t oldest = history_files(directory_).at(0).begins;
  EXPECT_GT(oldest, kStart + 1);
  for (std::size_t i = 0; i < answered.size(); i += 97) {
    const auto& [time, address] = answered[i];
    EXPECT_THAT(address_at(time),
                HasSubstr(time < oldest ? "the oldest that is kept is " : address));
  }
}

TEST_F(KeptHistoryTest, RemovesWhatIsOlderThanItIsToBeKept) {
  KeepingRun run(directory_);
  run.config.keep = 80s;
  for (int i = 0; i < 300; ++i) run.tick();
  const std::vector<HistoryFile> files = history_files(directory_);
  EXPECT_GE(run.now - files.front().begins, 80);
  EXPECT_LE(run.now - files.front().begins, 80 + 3 * 80 / KeptHistory::kFiles);
}

TEST_F(KeptHistoryTest, AnObjectThatChangesOftenIsKeptOnceASecond) {
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.1");
  run.tick();
  const std::uint64_t before = bytes();
  for (int i = 0; i < 100; ++i) run.put_name("api", "10.0.1." + std::to_string(i));
  run.tick();
  EXPECT_LE(bytes() - before, 200U);
  EXPECT_THAT(address_at(run.now), HasSubstr("10.0.1.99"));
}

TEST_F(KeptHistoryTest, ARestartAddsToTheHistoryAndATimeWithoutADaemonIsSaid) {
  std::int64_t ended = 0;
  {
    KeepingRun run(directory_);
    run.put_name("api", "10.0.0.1");
    run.tick();
    ended = run.now;  // killed
  }
  KeepingRun run(directory_);
  run.now = ended + 1'000;
  run.put_name("api", "10.0.0.2");
  run.tick();
  EXPECT_THAT(address_at(ended), HasSubstr("10.0.0.1"));
  EXPECT_THAT(address_at(run.now), HasSubstr("10.0.0.2"));
  EXPECT_EQ(address_at(ended + 900), "the answers of " + time_text(ended + 900) +
                                         " are not kept: the daemon kept none after " +
                                         time_text(ended) + " and before " + time_text(run.now));
  EXPECT_EQ(address_at(kStart - 5), "the answers of " + time_text(kStart - 5) +
                                        " are not kept: the oldest that is kept is " +
                                        time_text(kStart + 1));
}

TEST_F(KeptHistoryTest, ADaemonInWhichNothingChangesKeepsItsHistory) {
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.1");
  for (int i = 0; i < 1'000; ++i) run.tick();
  EXPECT_THAT(address_at(run.now), HasSubstr("10.0.0.1"));
  EXPECT_LT(bytes(), 2'000U);
}

TEST_F(KeptHistoryTest, BeginsWhenTheSourcesHaveBeenReadOrSoonAfter) {
  KeepingRun run(directory_);
  run.registry.set_sources({.synced = false});
  run.tick();
  EXPECT_TRUE(history_files(directory_).empty());
  run.registry.set_sources({.synced = true});
  run.tick();
  EXPECT_EQ(history_files(directory_).size(), 1U);
  run.close();
  KeepingRun next(directory_);
  next.now = run.now + 10;
  next.registry.set_sources({.synced = false});
  next.tick();
  EXPECT_EQ(history_files(directory_).size(), 1U);
  next.tick(KeptHistory::kLongestWait);
  EXPECT_EQ(history_files(directory_).size(), 2U);
}

TEST_F(KeptHistoryTest, ADiskThatFailsIsATroubleUntilItIsWell) {
  std::filesystem::remove_all(directory_);
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.1");
  run.tick();
  EXPECT_THAT(run.history.trouble(), HasSubstr("cannot write " + directory_ + "/history."));
  std::filesystem::create_directory(directory_);
  run.tick();
  EXPECT_NE(run.history.trouble(), "") << "it is not tried again at once";
  run.tick(KeptHistory::kPauseAfterFailure);
  EXPECT_EQ(run.history.trouble(), "");
  EXPECT_THAT(address_at(run.now), HasSubstr("10.0.0.1"));
}

TEST_F(KeptHistoryTest, ObjectsThatDoNotFitAreATroubleAndLeaveNoFile) {
  KeepingRun run(directory_);
  run.config.size_bytes = 1'000;
  for (int i = 0; i < 200; ++i)
    run.put_name("n" + std::to_string(i * 7919 % 1000), "10.0.0." + std::to_string(i % 256));
  run.tick();
  EXPECT_THAT(run.history.trouble(), HasSubstr("history.size is too small"));
  EXPECT_TRUE(history_files(directory_).empty());
  run.config.size_bytes = 1 << 20;
  run.tick();
  EXPECT_EQ(run.history.trouble(), "");
  EXPECT_THAT(address_at(run.now, "n0"), HasSubstr("10.0.0.0"));
}

TEST_F(KeptHistoryTest, IsOffWithoutADirectoryOrASize) {
  KeepingRun run("");
  run.tick();
  KeepingRun off(directory_);
  off.config.keep = 0s;
  off.tick();
  off.config = {.size_bytes = 0};
  off.tick();
  EXPECT_TRUE(history_files(directory_).empty());
  EXPECT_EQ(off.history.trouble(), "");
}

TEST_F(KeptHistoryTest, AFileOfAnotherVersionIsSaidAndNotRead) {
  std::ofstream(directory_ + "/history." + std::to_string(kStart - 100))
      << "meshdns-history 2\nwhatever comes";
  std::ofstream(directory_ + "/history.text") << "no file of ours";
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.1");
  run.tick();
  EXPECT_THAT(address_at(run.now), HasSubstr("10.0.0.1"));
  EXPECT_THAT(address_at(kStart - 50),
              HasSubstr("its format is of another version of the program"));
  EXPECT_TRUE(last_change_before(directory_, run.now, "api.example.org").has_value());
  EXPECT_FALSE(last_change_before(directory_, kStart - 50, "api.example.org").has_value());
}

TEST_F(KeptHistoryTest, AClockThatIsSetBackBeginsAFile) {
  KeepingRun run(directory_);
  run.put_name("api", "10.0.0.1");
  run.tick();
  run.now -= 500;
  run.put_name("api", "10.0.0.2");
  run.tick();
  EXPECT_THAT(address_at(kStart - 498), HasSubstr("10.0.0.2"));
  EXPECT_THAT(address_at(kStart + 1), HasSubstr("10.0.0.1"));
}

}  // namespace
}  // namespace meshdns::dnsd
