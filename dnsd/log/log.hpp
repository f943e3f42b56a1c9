// SPDX-License-Identifier: Apache-2.0
// The log: lines of text or JSON on stderr, or entries of systemd's journal, that never make a
// query wait.
//
// Levels, the queue, its thread and the formatter are spdlog's.  Log adds fields, the folding of
// repeated messages, and writes that do not block.  When the queue is full or stderr is blocked,
// lines are dropped and counted; callers never wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log_field.hpp"
#include "dnsd/log/repeated_fold.hpp"

namespace meshdns::dnsd {

struct LogOptions {
  LogLevel level = LogLevel::Info;
  LogFormat format = LogFormat::Text;
  int fd = 2;  // not owned
  // $JOURNAL_STREAM: if it names `fd`, the lines become entries of systemd's journal.
  const char* journal_stream = nullptr;
  // Lines; at most 4 KiB each.  An empty place takes 400 octets.
  std::size_t queue_length = 1024;
};

// Any thread, except where said.  A text line is `TIMESTAMP LEVEL message key=value...`, a JSON
// line
// {"time":...,"level":...,"message":...,KEY:VALUE...}; times are UTC.  Text from outside is
// escaped, and a line has less than 4,000 octets.
class Log {
 public:
  explicit Log(const LogOptions& options);
  // Writes what is queued as far as the sink takes it at once.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void trace(std::string_view message, LogFields fields = {}) {
    write(LogLevel::Trace, message, fields);
  }
  void debug(std::string_view message, LogFields fields = {}) {
    write(LogLevel::Debug, message, fields);
  }
  void info(std::string_view message, LogFields fields = {}) {
    write(LogLevel::Info, message, fields);
  }
  void warn(std::string_view message, LogFields fields = {}) {
    write(LogLevel::Warn, message, fields);
  }
  void error(std::string_view message, LogFields fields = {}) {
    write(LogLevel::Error, message, fields);
  }
  // REQUIRES: level is not Off.
  void write(LogLevel level, std::string_view message, LogFields fields = {});
  // An INFO line whatever the level: what supervisors and tests wait for (`ready: ...`).
  void announce(std::string_view message, LogFields fields = {});
  // As write(), but `message` at most once in 10 s; the next line then has `repeated=N`.  Put what
  // varies in `fields`: the message alone is the key.
  void write_folded(LogLevel level, std::string_view message, LogFields fields = {});
  // Writes the counts of folded messages that did not come again.  To be called every few seconds.
  void write_fold_counts();

  bool enabled(LogLevel level) const;
  LogLevel level() const;
  void set_level(LogLevel level);
  void set_format(LogFormat format) { format_.store(format, std::memory_order_relaxed); }

  // Lines lost since the start: the queue was full, or the sink refused or blocked.
  std::uint64_t dropped() const;
  // Waits until what was queued before is written or given up, at most `limit`.
  void flush(std::chrono::milliseconds limit = std::chrono::seconds(1));

 private:
  struct Impl;
  void write(LogLevel level, std::string_view message, LogFields fields, std::uint64_t repeated);
  void announce(std::string_view message, LogFields fields, std::uint64_t repeated);

  std::atomic<LogFormat> format_;
  RepeatedFold fold_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
