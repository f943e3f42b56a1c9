// SPDX-License-Identifier: Apache-2.0
// Keeps the registry over restarts, in STATE_DIR/snapshot: read before anything is answered,
// written when something has changed, by a thread of its own and at the end.
//
// A state that is still coming in is not worth its writing, and what is being written cannot be
// changed in place: a change is written once the registry stands still, or after kLongestDelay.  A
// large registry that never stands still must not wear out the disk, either: the pause between two
// writes is 50 times what a write takes, or kSavePause, whichever is longer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dnsd/log/log.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/snapshot_file.hpp"

namespace meshdns::dnsd {

// The file of the registry.
struct StateStatus {
  std::int64_t written_unix = 0;  // the last good write of this run; 0 = none yet
  std::uint64_t bytes = 0;        // of that file
  std::uint64_t failures = 0;     // writes that failed
  std::string trouble;            // why the last write failed; empty if it did not
};

// Control thread.
class SavedRegistry {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kSavePause{3};
  static constexpr std::chrono::seconds kLongestDelay{10};
  static constexpr std::chrono::seconds kPauseAfterFailure{30};

  // REQUIRES: all outlive it.
  SavedRegistry(registry::Registry& registry, RegistryFeed& feed, Log& log);

  // `state_dir` empty: nothing is kept.  Gives the feed what an earlier run has left of `sources`.
  // A file that is damaged is renamed to FILE.corrupt and said; one of another version is not used.
  // REQUIRES: no source has been started.
  void open(const std::string& state_dir, std::vector<registry::SavedSource> sources);
  // The configuration has changed; nothing is read.
  void reconfigure(const std::string& state_dir, std::vector<registry::SavedSource> sources);
  // Call every second or so: writes in the background when there is something new.
  void tick(Time now);
  // Writes what is new, and returns when that is done.
  void close();

  StateStatus status() const;

 private:
  // The registry has changes since the last write if one of these differs.
  struct Version {
    std::uint64_t changed_resources = 0;
    std::size_t complete_sources = 0;
    std::uint64_t configurations = 0;
    friend bool operator==(const Version&, const Version&) = default;
  };
  // One write; constant while its thread runs, but for the outcome.
  struct Job {
    std::string file;
    std::shared_ptr<const registry::Snapshot> snapshot;
    registry::SavedSources sources;
    Version version;
    Time begun;
    std::uint64_t bytes = 0;
    Result<void> outcome;
    std::chrono::steady_clock::duration took{};
    std::atomic<bool> done{false};
  };

  void restore();
  void set_aside(const std::string& reason);
  Version version() const;
  bool is_time_to_write(Time now);
  std::unique_ptr<Job> prepare(Time now);
  static void write(Job& job);
  void conclude(Job& job);

  registry::Registry& registry_;
  RegistryFeed& feed_;
  Log& log_;
  std::string file_;  // empty = none
  std::vector<registry::SavedSource> sources_;
  std::uint64_t configurations_ = 0;
  Version saved_;
  Version seen_;  // at the last tick
  Time unsaved_since_ = Time::max();
  Time next_save_ = Time::min();
  StateStatus status_;
  std::unique_ptr<Job> job_;  // the snapshot in it is let go of here, as all are
  std::jthread work_;
};

}  // namespace meshdns::dnsd
