// SPDX-License-Identifier: Apache-2.0
// Records answers in the query log and as dnstap messages, as log.queries and log.dnstap say.
#pragma once

#include <cstdint>
#include <memory>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/kernel_answers.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/query_log/query_log_writer.hpp"

namespace meshdns::dnsd {

// Control thread.
class QueryLogging {
 public:
  explicit QueryLogging(Log& log) : log_(log) {}

  // REQUIRES: it outlives the workers.
  void apply(const LogConfig& config, const QuerySettings& settings, WorkerPool& workers,
             KernelAnswers& kernel);
  // Writes what is queued for dnstap, and ends.
  void close();

  QueryLogCounts counts() const;

 private:
  void apply_dnstap(const LogConfig& config);

  Log& log_;
  // A queue of its own, so that no flood of queries pushes out what matters.  Null until
  // log.queries asks for it.
  std::unique_ptr<Log> query_log_;
  std::shared_ptr<FrameStream> dnstap_;  // null until log.dnstap asks for it
  DnstapCounts dnstap_before_;           // of streams that were closed
};

}  // namespace meshdns::dnsd
