// SPDX-License-Identifier: Apache-2.0
// Shared by the source files of the class Daemon.
#pragma once

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/joined.hpp"

namespace meshdns::dnsd {

// After this time, the log and the supervisor hear that the daemon answers, though a source has not
// been read: it answers all queries that do not depend on that source.
inline constexpr std::chrono::seconds kServingAnyway{5};

// The interval at which the counts of failing names are halved.
inline constexpr unsigned kFadeSeconds = 60;

inline unsigned worker_count(const ServerConfig& server) {
  return server.workers != 0 ? server.workers : std::max(1U, std::thread::hardware_concurrency());
}

inline std::string_view first_reason(const Readiness& readiness) {
  for (const auto* reasons : {&readiness.not_ready, &readiness.degraded})
    if (!reasons->empty()) return reasons->front();
  return {};
}

}  // namespace meshdns::dnsd
