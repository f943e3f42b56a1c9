// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/log/log.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
