// SPDX-License-Identifier: Apache-2.0
// Records of answers: lines of the query log for those that `log.queries` asks for (docs/log.md),
// and messages of dnstap for all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query_log/frame_stream.hpp"

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

// Sends every answer of one worker as a dnstap message.
class DnstapLog final : public QueryLog {
 public:
  DnstapLog(std::shared_ptr<FrameStream> stream, std::string identity, std::string version)
      : stream_(std::move(stream)), identity_(std::move(identity)), version_(std::move(version)) {}
  void on_answer(const AnsweredQuery& answered) override;

 private:
  const std::shared_ptr<FrameStream> stream_;
  const std::string identity_;
  const std::string version_;
};

// Returns whether `query_class` has this answer.
bool has_answer(QueryLogClass query_class, const AnsweredQuery& answered);

}  // namespace meshdns::dnsd
