// SPDX-License-Identifier: Apache-2.0
// The levels of the configuration as those of spdlog.
#pragma once

#include <spdlog/common.h>

#include "dnsd/config/config.hpp"

namespace meshdns::dnsd {

// Off is the only level with another number: spdlog has one above "error", which the log never
// uses.
inline spdlog::level::level_enum to_spdlog(LogLevel level) {
  return level == LogLevel::Off ? spdlog::level::off
                                : static_cast<spdlog::level::level_enum>(level);
}

inline LogLevel from_spdlog(spdlog::level::level_enum level) {
  return level > spdlog::level::err ? LogLevel::Off : static_cast<LogLevel>(level);
}

static_assert(static_cast<int>(LogLevel::Trace) == spdlog::level::trace);
static_assert(static_cast<int>(LogLevel::Error) == spdlog::level::err);

}  // namespace meshdns::dnsd
