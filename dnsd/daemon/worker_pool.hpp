// SPDX-License-Identifier: Apache-2.0
// The workers: their start, the settings that they get, the watch over their loops, and their end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/net/worker.hpp"
#include "dnsd/query/asked_hosts.hpp"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/snapshot/publisher.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// Finds workers whose loop does not turn.  Each counts a heartbeat a second; one whose count stands
// still hangs: in a system call, in an endless loop, or because its core is taken from it.  One
// thread.
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kAvoidAfter{2};
  static constexpr std::chrono::seconds kStuckAfter{5};

  // The workers' counts, always in the same order; to be called every second.
  void observe(std::span<const std::uint64_t> heartbeats, Time now);
  // By index, those that had not moved for kStuckAfter at the last observation.
  std::vector<std::size_t> stuck() const { return still_for(kStuckAfter); }
  // The same for kAvoidAfter: perhaps they are only slow, but others answer sooner.
  std::vector<std::size_t> to_avoid() const { return still_for(kAvoidAfter); }
  // "worker 1 hangs"; empty when all turn.
  std::string complaint() const;

 private:
  std::vector<std::size_t> still_for(std::chrono::seconds time) const;

  struct Worker {
    std::uint64_t heartbeat = 0;
    Time moved;
  };
  std::vector<Worker> workers_;
  Time observed_;
};

// The number of workers that the configuration asks for.
unsigned worker_count(const ServerConfig& server);

// Control thread.
class WorkerPool {
 public:
  explicit WorkerPool(Log& log);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  // The parts that all workers share.  REQUIRES: `publisher` outlives the pool.
  struct Shared {
    std::shared_ptr<TcpBudget> budget;
    std::shared_ptr<ForwardShared> forwarding;
    registry::Publisher& publisher;
    std::shared_ptr<ReachProbes> reach_probes;
  };
  // Starts one for each set of sockets that `listeners` has.
  Result<void> start(const Config& config, const UpstreamConfig& upstream,
                     const QuerySettings& settings, const ListenerSet& listeners,
                     const Shared& shared);
  std::size_t size() const { return units_.size(); }

  // Each takes effect on the workers' threads, soon.
  void on_snapshot();
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  void reconfigure(const QuerySettings& settings);
  void change_listeners(const ListenerSet& listeners);
  // Leaves new queries to another process that has the same sockets, and reads again.
  void stop_reading();
  void read_again();
  // `make_log` makes the log of the worker of that index; null = none.
  void log_queries(const std::function<std::shared_ptr<QueryLog>(std::size_t)>& make_log);
  // Behind settings that were given before.  Null = none.
  void feed_kernel(const std::shared_ptr<const KernelFeed>& feed);
  // Counts what clients ask for, for take_asked(), or no more (Off).
  void count_asked(DependencyRecord record);
  // Returns what was counted since the last call, but for the last seconds.  Call every second.
  std::vector<std::unique_ptr<AskedHosts>> take_asked();
  // Counts what others answer with the workers' answers.  REQUIRES: `others` outlive all calls.
  void count_also(const WorkerStatus& others, TopQueries& top) {
    others_ = &others;
    others_top_ = &top;
  }

  // To be called every second.  New queries of a worker whose loop stands still go to the others:
  // the kernel is told so each time, since `listeners` may have new sockets.
  void watch(ListenerSet& listeners, std::chrono::steady_clock::time_point now);
  // Says which loops have stood still for Liveness::kStuckAfter; empty if none has.
  std::string complaint() const { return liveness_.complaint(); }
  // Queries that the kernel has dropped since the start, because a receive buffer was full.
  std::uint64_t dropped_queries() const;
  // Logs clients that are over the rate limit.
  void tell_of_limited_clients();

  std::vector<WorkerStatus> statuses() const;
  WorkersStatus status() const;
  LoadHistory::Totals totals() const;
  // The most frequent names and clients; each list has at most `limit` entries.
  FrequentQueries frequent(std::size_t limit) const;
  // The names that clients ask for often and that do not exist, sorted.
  std::vector<std::string> often_denied() const;
  // Call every second: names that got no answer long ago count less.
  void fade_failing_names();

  // No new queries from now on; those in flight are answered.  `on_drained` is called on another
  // thread when all have ended.
  void drain(Waiting waiting, std::function<void()> on_drained);
  // Drains if that has not been asked for, and waits for the end.
  void end();

 private:
  struct Unit;
  // The interval at which the counts of failing names are halved.
  static constexpr unsigned kFadeSeconds = 60;
  // A name that was denied so many times in the last minutes is asked often.
  static constexpr std::uint64_t kOftenDenied = 10;
  static constexpr std::size_t kMaxOftenDenied = 32;

  // Calls `change` with each unit on its worker's thread, soon.
  template <typename Change>
  void post(const Change& change);
  void avoid_those_that_stand_still(ListenerSet& listeners);
  std::vector<FailingNames::Entry> failing_names(std::size_t limit) const;
  // `names_of`: those of a handler; the most frequent first, of all workers together.
  template <typename NamesOf>
  std::vector<FailingNames::Entry> united(std::size_t limit, const NamesOf& names_of) const;

  Log& log_;
  std::vector<std::unique_ptr<Unit>> units_;
  Liveness liveness_;
  std::vector<std::size_t> avoided_;
  // Seconds between two calls for the tables of the workers.
  static constexpr unsigned kAskedSeconds = 5;

  std::shared_ptr<AskedInbox> asked_ = std::make_shared<AskedInbox>(0);
  unsigned seconds_to_asked_ = kAskedSeconds;
  const WorkerStatus* others_ = nullptr;  // null: none
  TopQueries* others_top_ = nullptr;
  unsigned seconds_to_fade_ = kFadeSeconds;
  std::thread drain_waiter_;  // for the workers' ends, while the control thread's loop goes on
};

}  // namespace meshdns::dnsd
