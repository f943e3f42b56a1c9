// SPDX-License-Identifier: Apache-2.0
// The answers that the program in the kernel tells about, for the query log and the lists of the
// most frequent names and clients.
#pragma once

#include <cstdint>
#include <memory>

#include "dnsd/kernel/program/answer_maps.h"
#include "dnsd/query/query_log.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// Control thread.
class KernelSamples {
 public:
  KernelSamples();

  // The log of its answers; null = none.
  void set_log(std::shared_ptr<QueryLog> log) { log_ = std::move(log); }
  // Of so many answers the program is to tell about one.
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

}  // namespace meshdns::dnsd
