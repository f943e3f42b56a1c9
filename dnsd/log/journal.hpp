// SPDX-License-Identifier: Apache-2.0
// Lines of the log as entries of systemd's journal: with a priority and, for events that alerts
// need, with a stable MESSAGE_ID (systemd/meshdns.catalog explains these).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {

// True if `fd` is the stream that systemd has connected to the journal, as `journal_stream`
// ($JOURNAL_STREAM: "DEVICE:INODE") says.  Null is false.
bool is_journal_stream(int fd, const char* journal_stream);

// A socket to the journal at `path`.  Invalid if there is none.
FileDescriptor connect_to_journal(const char* path = "/run/systemd/journal/socket");

// The number of syslog(3) for a level: 3 (error) to 7 (debug).
int syslog_priority(LogLevel level);

// The identifier of the event whose line begins with `payload` (line_format.hpp), as 32 hexadecimal
// digits; empty if it has none.
std::string_view journal_message_id(std::string_view payload);

// A datagram for the journal.  REQUIRES: `line` and `payload` have no line break.
std::string journal_entry(LogLevel level, std::string_view line, std::string_view payload);

// The errors of the last run of meshdnsd.service, oldest first, if it did not become ready or
// failed afterwards.  Empty as well where this user may not read the journal, or there is none.
std::vector<std::string> errors_of_last_run();

}  // namespace meshdns::dnsd
