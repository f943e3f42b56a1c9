// SPDX-License-Identifier: Apache-2.0
// The two forms of a log line.  The caller of the log makes the payload: the message and the
// fields.  The log's thread adds the time and the level.
#pragma once

#include <spdlog/fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log_field.hpp"

namespace meshdns::dnsd {

// `message key=value...`, or the members of a JSON object behind its first brace.  At most 3,900
// octets.  Any text is safe.
std::string log_payload(LogFormat format, std::string_view message, LogFields fields,
                        std::uint64_t repeated = 0);

// Makes lines of payloads: `TIMESTAMP LEVEL payload`, or {"time":...,"level":...,payload.
std::unique_ptr<spdlog::formatter> make_line_formatter(LogFormat format);
// As the above for the journal, which has the time: text lines have none, and no line break.
std::unique_ptr<spdlog::formatter> make_journal_formatter(LogFormat format);

}  // namespace meshdns::dnsd
