// SPDX-License-Identifier: Apache-2.0
// Answers in the kernel (server.kernel_answers): when this daemon uses the maps of the loader, what
// it does to them, and what its workers are told.
//
//     closed --maps are there--> open --another daemon owns them, new maps, or off--> closed
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/kernel/kernel_maps.hpp"
#include "dnsd/kernel/program/answer_maps.h"
#include "dnsd/log/log.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/base/handle.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// Counts and logs the answers that the program in the kernel samples, for the lists of the most
// frequent names and clients and for the query log.  Control thread.
class KernelSamples {
 public:
  KernelSamples();

  // The log of its answers; null = none.
  void set_log(std::shared_ptr<QueryLog> log) { log_ = std::move(log); }
  // The kernel program samples one of this many answers.
  std::uint32_t every() const { return log_ ? 1 : kEvery; }
  // `snapshot`: tells who the client is.
  void note(const meshdns_sample& sample, const registry::Snapshot& snapshot);

  TopQueries& top() { return top_; }

 private:
  // Enough for the lists at 10,000 answers a second.
  static constexpr std::uint32_t kEvery = 64;

  TopQueries top_;
  std::shared_ptr<QueryLog> log_;
};

// Control thread.
class KernelAnswers {
 public:
  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  KernelAnswers(const Config& config, registry::Registry& registry, WorkerPool& workers, Log& log)
      : config_(config), registry_(registry), workers_(workers), log_(log) {}
  ~KernelAnswers() { stop(); }
  KernelAnswers(const KernelAnswers&) = delete;
  KernelAnswers& operator=(const KernelAnswers&) = delete;

  // From now on tick() does something.  REQUIRES: the workers run.
  void start(uv_loop_t* loop) { loop_ = loop; }
  // Call every second: opens the maps when they have come, leaves them when others have them, and
  // serves `addresses`.
  void tick(const std::vector<SocketAddress>& addresses);
  // Call after each publication of a snapshot.
  void on_published();
  // Call when the workers have been given other settings: answers from before do not hold.
  void on_settings();
  // The log of the kernel's answers; null = none.
  void log_queries(std::shared_ptr<QueryLog> log);
  // The program answers nothing until the next tick().
  void close();
  // The same, for good.
  void stop();

  KernelAnswersStatus status() const;
  // For /readyz and pages; empty: all is well.
  const std::string& trouble() const { return trouble_; }

 private:
  void open();
  void begin_feed();
  void serve(const std::vector<SocketAddress>& addresses);
  void count();
  void read_samples();
  void say(std::string trouble);
  bool is_wanted() const;
  // Why the daemon answers all by itself, though it is to use the maps; empty: nothing.
  std::string obstacle() const;

  const Config& config_;
  registry::Registry& registry_;
  WorkerPool& workers_;
  Log& log_;
  uv_loop_t* loop_ = nullptr;  // null: not started, or ended
  loop::Timer heartbeat_;
  loop::Timer reading_;
  std::shared_ptr<KernelMaps> maps_;  // null: closed
  std::shared_ptr<KernelFeed> feed_;  // null: closed
  std::vector<SocketAddress> served_;
  std::vector<std::uint64_t> counted_;      // of the maps' counters
  std::shared_ptr<QueryLog> query_log_;     // null: none
  std::unique_ptr<KernelSamples> samples_;  // null: never open so far
  QueryCounters counters_;                  // of the program's answers
  const WorkerCounters sockets_;            // it has none
  const ForwardCounters forward_;           // nor does it forward
  const WorkerStatus counts_{sockets_, counters_, forward_};
  std::string trouble_;
};

}  // namespace meshdns::dnsd
