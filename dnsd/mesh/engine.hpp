// SPDX-License-Identifier: Apache-2.0
// The registry and all that hangs on it: its sources and publication, the lookups of endpoint
// names, the analysis, the changes of answers, and the state that is kept over restarts.
#pragma once

#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/dependencies.hpp"
#include "dnsd/mesh/endpoint_resolution.hpp"
#include "dnsd/mesh/kept_history.hpp"
#include "dnsd/mesh/kept_state.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/running_sources.hpp"
#include "dnsd/mesh/server_names.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::registry {
class View;
}

namespace meshdns::dnsd {

// The last analysis across resources.
struct AnalysisStatus {
  registry::AnalysisReport report;
  double seconds = 0;  // that it took
};

// Looks for mistakes across the objects of the registry (docs/reference/findings.md) after it has
// changed, or the names that clients ask for in vain have.  The work has a thread of its own: a
// snapshot is immutable, so that neither the control thread nor the workers wait for it.  A burst
// of changes is one analysis, and analyses take at most a fiftieth of the time of one core. Control
// thread.
class MeshAnalysis {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: both outlive the analysis.
  MeshAnalysis(const registry::Registry& registry, Log& log) : registry_(registry), log_(log) {}

  // Returns the names that clients ask for often and that do not exist, sorted.
  using DeniedNames = std::function<std::vector<std::string>()>;
  void set_denied_names(DeniedNames denied) { denied_ = std::move(denied); }

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
  // These names change often, and are no reason for haste.
  static constexpr std::chrono::minutes kDeniedPause{1};

  struct Job {
    std::shared_ptr<const registry::Snapshot> snapshot;
    Time begun;
    std::vector<std::string> denied;
    registry::AnalysisReport report;
    std::chrono::steady_clock::duration took{};
    std::atomic<bool> is_to_end = false;
    std::atomic<bool> is_done = false;
  };
  static void run(Job& job);
  bool is_time(Time now);
  bool have_denied_names_changed(Time now);
  void conclude();
  void tell(const registry::FindingCounts& before) const;

  const registry::Registry& registry_;
  Log& log_;
  AnalysisStatus status_;
  std::uint64_t analysed_ = 0;  // generation
  std::uint64_t seen_ = 0;      // generation at the last tick
  Time changed_since_ = Time::max();
  Time not_before_{};
  DeniedNames denied_;
  std::vector<std::string> analysed_denied_;
  Time denied_due_{};
  std::unique_ptr<Job> job_;
  std::jthread work_;  // last: it ends before the job does
};

// `client:` of the configuration in the registry's terms.
registry::ClientSettings client_settings(const Config& config);

// A hash of the sections that change the answers for names of the registry.
std::uint64_t hash_of_answers(const Config& config);

// Keeps the history of answers, and says in the log what has changed: one line a second at most,
// however many commits there were.  Control thread.
class AnswerChanges {
 public:
  // REQUIRES: both outlive it.
  AnswerChanges(registry::Registry& registry, Log& log) : registry_(registry), log_(log) {}

  // Changes count from now on.
  void begin();
  // To be called every second.
  void tick();
  // Up to date.
  const AnswerHistory& history();
  // See AnswerHistory, up to a second late.  Any thread.
  std::string last_change(std::string_view host, std::string_view ns) const {
    return history_.last_change(host, ns);
  }

 private:
  registry::Registry& registry_;
  Log& log_;
  std::shared_ptr<const registry::Controller::Handler> handler_;
  AnswerHistory history_;
  AnswerHistory::Counts said_;
};

// The running mesh, without sockets and workers.  The daemon has one, and so do `explain` and the
// tests that need no process.  Control thread.
//
//     Engine engine(&loop, config, listener, log, now);
//     engine.use(upstream);
//     engine.start(upstream, settings);  // endpoint names have addresses from now on
//     engine.open();                     // the state of an earlier run, then the sources
class Engine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  Engine(uv_loop_t* loop, const Config& config, ForwardListener& listener, Log& log, Time started);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Upstream servers for queries from now on.
  void use(const UpstreamConfig& upstream);
  // Begins to look up endpoint names.  `settings`: as those of the workers.
  Result<void> start(const UpstreamConfig& upstream, const QuerySettings& settings);
  // Restores the cache and the registry of an earlier run, then starts the sources.
  void open();
  // Follows a change of the configuration, but for its upstream servers, state_dir and sources.
  void apply(const Config& before);
  // Calls `listener` when a snapshot was published, maybe by the commit that is under way.
  void set_listener(std::function<void()> listener);
  // Tells the registry how much the sources have delivered.
  void update();
  // Adds what the workers have counted to `dependencies`.
  void count(const std::vector<std::unique_ptr<AskedHosts>>& tables);
  // Call every second: frees snapshots, saves what is to be kept, analyses, logs changed answers.
  void tick(Time now);
  // When the answer for `name` changed last, and the objects behind it that are served as they were
  // before, because what their source has now is faulty; a sentence each.  Any thread.
  std::vector<std::string> past_of(const registry::View& view, std::string_view name) const;
  // Ends all lookups and sources, and saves; the loop has to run on for the handles to close.
  void close();

  const Config& config;
  Log& log;
  const Time started;
  registry::Registry registry;
  registry::Publisher publisher;
  RegistryFeed feed;
  MeshAnalysis analysis;
  AnswerChanges answers;
  const std::shared_ptr<ForwardShared> forwarding;
  Dependencies dependencies;
  KeptState kept;
  KeptHistory history;
  EndpointResolution resolution;
  ServerNames server_names;
  RunningSources sources;

 private:
  static constexpr std::chrono::minutes kNetworksPause{1};  // see Registry::settle_networks()

  uv_loop_t* loop_;
  Time networks_settle_at_{};
};

}  // namespace meshdns::dnsd
