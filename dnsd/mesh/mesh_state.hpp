// SPDX-License-Identifier: Apache-2.0
// The registry of the daemon, and all that hangs on it alone: how it is published, fed, analysed,
// and what its changes did to answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/answer/answer_history.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/running_sources.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"

namespace meshdns::dnsd {

// Looks for mistakes across the objects of the registry (docs/findings.md) after it has changed.
// The work has a thread of its own: a snapshot is immutable, so that neither the control thread nor
// the workers wait for it.  A burst of changes is one analysis, and analyses take at most a
// fiftieth of the time of one core.  Control thread.
class MeshAnalysis {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: both outlive the analysis.
  MeshAnalysis(const registry::Registry& registry, Log& log) : registry_(registry), log_(log) {}

  // Called every second: takes over the result of an analysis, or begins one.
  void tick(Time now);
  // Ends the thread.
  void close();

  const AnalysisStatus& status() const { return status_; }

 private:
  static constexpr std::chrono::seconds kMinPause{2};
  static constexpr int kPauseFactor = 49;
  // Changes that do not end are waited for so long.
  static constexpr std::chrono::seconds kLongestDelay{10};

  struct Job {
    std::shared_ptr<const registry::Snapshot> snapshot;
    Time begun;
    registry::AnalysisReport report;
    std::chrono::steady_clock::duration took{};
    std::atomic<bool> is_to_end = false;
    std::atomic<bool> is_done = false;
  };
  static void run(Job& job);
  bool is_time(Time now);
  void conclude();
  void tell(const registry::FindingCounts& before) const;

  const registry::Registry& registry_;
  Log& log_;
  AnalysisStatus status_;
  std::uint64_t analysed_ = 0;  // generation
  std::uint64_t seen_ = 0;      // generation at the last tick
  Time changed_since_ = Time::max();
  Time not_before_{};
  std::unique_ptr<Job> job_;
  std::jthread work_;  // last: it ends before the job does
};

// `client:` of the configuration in the registry's terms.
registry::ClientSettings client_settings(const Config& config);

// Keeps the history of answers, and says in the log what has changed: one line a second at most,
// however many commits there were.  Control thread.
class AnswerWatch {
 public:
  // REQUIRES: both outlive it.
  AnswerWatch(const registry::Registry& registry, Log& log) : registry_(registry), log_(log) {}

  // Changes count from now on.
  void begin();
  // To be called every second.
  void tick();
  // Up to date.
  const AnswerHistory& history();

 private:
  const registry::Registry& registry_;
  Log& log_;
  AnswerHistory history_;
  AnswerHistory::Counts said_;
};

// Control thread.
struct MeshState {
  // REQUIRES: `log` outlives it.
  MeshState(const Config& config, Log& log);
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;

  // Tells the registry how much `sources` have delivered.  True: answers may be others now.
  bool update(const Config& config, const RunningSources& sources);

  registry::Registry registry;
  registry::Publisher publisher;
  RegistryFeed feed;
  MeshAnalysis analysis;
  AnswerWatch answers;
};

}  // namespace meshdns::dnsd
