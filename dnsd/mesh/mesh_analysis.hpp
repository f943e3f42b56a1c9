// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/log/log.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/registry.hpp"

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

}  // namespace meshdns::dnsd
