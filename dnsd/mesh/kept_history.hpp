// SPDX-License-Identifier: Apache-2.0
// Keeps the history of the registry in state_dir (dnsd/mesh/history_file.hpp): its objects, the
// results of lookups, the virtual addresses and the changes of answers, so that `meshdnsd explain
// --at` can make an earlier answer again.
//
// Writes once a second at most, what has changed since the last time: of an object that changes
// more often, the last form of each second is kept.  The comparison and the writing have a thread
// of their own: a snapshot is immutable, and shares with the next one all that has not changed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/history_file.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/hash_trie.hpp"

namespace meshdns::dnsd {

// Control thread.
class KeptHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Shows that the daemon has run, and nothing has changed.
  static constexpr std::chrono::seconds kLongestSilence{60};
  static constexpr std::chrono::seconds kPauseAfterFailure{30};
  static constexpr std::chrono::hours kPauseIfTooLarge{1};
  // A file has at most this part of `history.size`, but at least twice what it begins with; and of
  // `history.keep`.
  static constexpr int kFiles = 8;
  // The first record of a file may take at most this part of `history.size`.
  static constexpr int kLeastFiles = 4;
  // Sources that have not been read by then are not waited for.
  static constexpr std::chrono::seconds kLongestWait{10};
  // Changes of earlier runs are looked for in so much, which takes a few seconds.
  static constexpr std::uint64_t kMostRecalled = std::uint64_t{128} << 20;

  // REQUIRES: all outlive it.
  KeptHistory(registry::Registry& registry, RegistryFeed& feed, Log& log);

  // The configuration in use; see HistoryFacts.
  void set_configuration(std::uint64_t hash) { configuration_ = hash; }
  // Call every second: writes in the background when there is something new.  `state_dir` empty:
  // nothing is kept.
  void tick(Time now, std::int64_t unix_seconds, const std::string& state_dir,
            const HistoryConfig& config, const AnswerHistory& answers);
  // Waits until all is written that tick() has begun to write.
  void finish();
  // Writes what is new, and returns when that is done.
  void close(std::int64_t unix_seconds, const AnswerHistory& answers);

  // The changes of earlier runs, the oldest first; none until they have been read, once.
  const std::deque<AnswerEvent>& earlier_changes() const;
  // Why nothing is written; empty if it is, or is not to be.
  const std::string& trouble() const { return trouble_; }

 private:
  using Objects = registry::HashTrie<registry::StoredResource>;
  using Use = std::pair<std::string, std::string>;  // namespace, endpoint name

  // One record.  Constant while its thread runs, but for the writer and the outcome.
  struct Job {
    std::string state_dir;
    HistoryConfig config;
    std::int64_t unix_seconds = 0;
    bool is_first = false;  // of a new file
    Objects before;
    Ref<const registry::OriginNames> origins_before;
    std::shared_ptr<const registry::Snapshot> snapshot;
    std::optional<HistoryFacts> facts;
    std::vector<std::pair<std::string, registry::ResolvedName>> results;
    std::vector<registry::VipAssignment> vips_before;  // sorted
    std::vector<registry::VipAssignment> vips;
    bool has_vips = false;
    std::vector<AnswerEvent> events;
    std::unique_ptr<HistoryWriter> writer;
    Time begun;
    Result<void> outcome;
    bool is_too_large = false;  // why it failed
    std::atomic<bool> done{false};
  };

  // The changes that earlier runs have kept.  Its thread has it until it is done.
  struct Earlier {
    std::vector<HistoryFile> files;
    AnswerHistory changes;
    std::vector<std::string> troubles;
    std::atomic<bool> done{false};
  };

  void follow(const std::string& state_dir, const HistoryConfig& config);
  void recall();
  void conclude_recall();
  void give_up_file();
  bool is_time_to_begin(Time now) const;
  bool has_all_results() const;
  bool is_time_for_file(std::int64_t unix_seconds) const;
  void begin_file();
  std::unique_ptr<Job> prepare(Time now, std::int64_t unix_seconds, const AnswerHistory& answers);
  void take_results(Job& job);
  static void write(Job& job);
  static Result<void> create_file(Job& job);
  static void put_objects(Job& job);
  static void put_vips(Job& job);
  void conclude();

  registry::Registry& registry_;
  RegistryFeed& feed_;
  Log& log_;
  std::string state_dir_;
  HistoryConfig config_;
  std::uint64_t configuration_ = 0;
  std::shared_ptr<const registry::Controller::Handler> handler_;
  std::set<Use> touched_;  // uses whose results may have changed since the last record

  // The state at the last record of the file; of no meaning without one.
  std::unique_ptr<HistoryWriter> writer_;
  Objects objects_;
  Ref<const registry::OriginNames> origins_;
  std::vector<registry::VipAssignment> vips_;
  std::uint64_t vip_changes_ = 0;
  HistoryFacts facts_;
  std::uint64_t generation_ = 0;
  std::int64_t last_record_ = 0;
  std::uint64_t events_ = 0;  // of AnswerHistory::counts()

  Time waits_since_ = Time::max();
  Time not_before_ = Time::min();
  std::string trouble_;
  std::unique_ptr<Job> job_;  // the snapshot in it is let go of here, as all are
  std::jthread work_;
  std::unique_ptr<Earlier> earlier_;
  std::jthread recalling_;  // last: it ends before what it reads into
};

}  // namespace meshdns::dnsd
