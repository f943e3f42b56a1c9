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
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dnsd/config/config.hpp"

namespace meshdns::dnsd {

// One `key=value` of a line.  The text must live until the call that takes it returns.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  template <typename T>
  LogField(std::string_view k, const T& v) : key(k), value(to_value(v)) {}

  std::string_view key;
  Value value;

 private:
  template <typename T>
  static Value to_value(const T& v) {
    if constexpr (std::same_as<T, bool>)
      return v;
    else if constexpr (std::floating_point<T>)
      return static_cast<double>(v);
    else if constexpr (std::signed_integral<T>)
      return static_cast<std::int64_t>(v);
    else if constexpr (std::unsigned_integral<T>)
      return static_cast<std::uint64_t>(v);
    else
      return std::string_view(v);
  }
};
using LogFields = std::initializer_list<LogField>;

// Decides which occurrence of a message is written: a failure that happens a thousand times a
// second is one line and a count.  Any thread.
class RepeatedFold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // One line per key and `window`.  Beyond `max_keys` distinct keys at a time all further ones
  // share one.
  explicit RepeatedFold(std::chrono::milliseconds window = std::chrono::seconds(10),
                        std::size_t max_keys = 256);

  // `key` is the message's template, without the parts that vary.  nullopt: leave this one out; it
  // is counted.  A number: write it, and say that so many were left out since the last line.
  std::optional<std::uint64_t> admit(std::string_view key, Time now);

  struct Folded {
    std::string key;
    std::uint64_t count;
  };
  // Returns the counts of folded messages whose window is over at `now`, and forgets them.  Call it
  // every few seconds, so that the count is written even if the message never comes again.
  std::vector<Folded> take_expired(Time now);

 private:
  struct Entry {
    Time written;
    std::uint64_t folded = 0;
  };

  const std::chrono::milliseconds window_;
  const std::size_t max_keys_;
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

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
  // `repeated`: the number of equal lines that were left out before.  REQUIRES: level is not Off.
  void write(LogLevel level, std::string_view message, LogFields fields = {},
             std::uint64_t repeated = 0);
  // An INFO line whatever the level: what supervisors and tests wait for (`ready: ...`).
  void announce(std::string_view message, LogFields fields = {}, std::uint64_t repeated = 0);
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

  std::atomic<LogFormat> format_;
  RepeatedFold fold_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
