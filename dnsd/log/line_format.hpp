// SPDX-License-Identifier: Apache-2.0
// The two forms of a log line.  The caller of the log makes the payload: the message and the
// fields.  The log's thread adds the time and the level.
#pragma once

#include <spdlog/common.h>
#include <spdlog/fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The levels of the configuration as those of spdlog.
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

// `message key=value...`, or the members of a JSON object behind its first brace.  At most 3,900
// octets.  Any text is safe.
std::string log_payload(LogFormat format, std::string_view message, LogFields fields,
                        std::uint64_t repeated = 0);

// Makes lines of payloads: `TIMESTAMP LEVEL payload`, or {"time":...,"level":...,payload.
std::unique_ptr<spdlog::formatter> make_line_formatter(LogFormat format);
// As the above for the journal, which has the time: text lines have none, and no line break.
std::unique_ptr<spdlog::formatter> make_journal_formatter(LogFormat format);

}  // namespace meshdns::dnsd
