// SPDX-License-Identifier: Apache-2.0
// The query log: a line for each answer that `log.queries` asks for (docs/log.md).
#pragma once

#include <cstdint>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/query/query_log.hpp"

namespace meshdns::dnsd {

// Writes the query log of one worker.  Lines are queued.  The worker never waits: if the reader of
// the log is too slow, lines are dropped and counted there.
class QueryLogWriter final : public QueryLog {
 public:
  // `seed`: any number, another one for each worker.  REQUIRES: `log` outlives it.
  QueryLogWriter(Log& log, const QueryLogConfig& config, std::uint64_t seed);
  void on_answer(const AnsweredQuery& answered) override;

 private:
  bool is_sampled();

  Log& log_;
  const QueryLogConfig config_;
  std::uint64_t random_;
};

// Returns whether `query_class` has this answer.
bool has_answer(QueryLogClass query_class, const AnsweredQuery& answered);

}  // namespace meshdns::dnsd
