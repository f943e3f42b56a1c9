// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/log.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "dnsd/log/journal.hpp"
#include "dnsd/log/line_format.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kOtherKeys = "other repeated messages";
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kSlice{50};  // how soon stop_waiting() is noticed

bool is_socket(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

bool is_for_journal(const LogOptions& options) {
  return is_journal_stream(options.fd, options.journal_stream);
}

// Signals belong to the control thread; without SIGPIPE, a closed stderr is only a failed write.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// Writes to a descriptor that somebody else may have blocked: a pipe nobody reads, a terminal on
// hold, a full disk.  Never changes the descriptor's flags, which stderr shares with the process
// that started the daemon.  One thread calls write(); the rest is for any thread.
class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd), is_socket_(is_socket(fd)) {}  // not owned

  // `line` ends with a newline.
  void write(std::string_view line) {
    const bool is_written = mid_line_ ? write_all('\n' + std::string(line)) : write_all(line);
    if (!is_written) ++lost_;
    ++handled_;
  }
  // From now on a line that cannot be written at once is given up.
  void stop_waiting() { patient_ = false; }
  std::uint64_t handled() const { return handled_; }  // written or given up
  std::uint64_t lost() const { return lost_; }        // given up

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  bool write_all(std::string_view text) {
    const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
    for (std::string_view rest = text; !rest.empty();) {
      const bool writable = wait_writable(deadline);
      const long n = writable ? write_some(rest) : -1;
      if (n > 0) {
        rest.remove_prefix(static_cast<std::size_t>(n));
        mid_line_ = !rest.empty();
        continue;
      }
      const bool again = writable && (errno == EAGAIN || errno == EINTR);
      if (!again || !patient_ || std::chrono::steady_clock::now() >= deadline) return false;
    }
    return true;
  }

  // A pipe that poll() calls writable takes PIPE_BUF octets without blocking, and no line is
  // longer; a socket may take less than a line, hence MSG_DONTWAIT.
  long write_some(std::string_view rest) const {
    if (is_socket_) return ::send(fd_, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return ::write(fd_, rest.data(), rest.size());
  }

  bool wait_writable(Deadline deadline) const {
    for (;;) {
      pollfd waited{fd_, POLLOUT, 0};
      const int slice = patient_ ? static_cast<int>(kSlice.count()) : 0;
      const int n = ::poll(&waited, 1, slice);
      if (n > 0) return (waited.revents & POLLOUT) != 0;
      if (n < 0 && errno != EINTR) return false;
      if (!patient_ || std::chrono::steady_clock::now() >= deadline) return false;
    }
  }

  const int fd_;
  const bool is_socket_;   // the journal's stderr is one
  bool mid_line_ = false;  // log thread: the last line was given up half-way
  std::atomic<bool> patient_ = true;
  std::atomic<std::uint64_t> handled_ = 0;
  std::atomic<std::uint64_t> lost_ = 0;
};

// Gives lines of one format to the writer.
class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Journal: entries for its socket.  Prefixed: lines to a stream, with the prefix by which systemd
  // knows the priority.
  enum class Kind : std::uint8_t { Plain, Prefixed, Journal };

  LineSink(LogFormat format, Kind kind, std::shared_ptr<LineWriter> writer)
      : base_sink(kind == Kind::Plain ? make_line_formatter(format)
                                      : make_journal_formatter(format)),
        kind_(kind),
        writer_(std::move(writer)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    const LogLevel level = from_spdlog(message.level);
    if (kind_ == Kind::Plain)
      writer_->write(text);
    else if (kind_ == Kind::Journal)
      writer_->write(journal_entry(level, text, {message.payload.data(), message.payload.size()}));
    else
      writer_->write("<" + std::to_string(syslog_priority(level)) + ">" + std::string(text) + "\n");
  }
  void flush_() override {}

  const Kind kind_;
  const std::shared_ptr<LineWriter> writer_;
};

}  // namespace

// Two loggers for each format share one queue and its thread: a queued line keeps the format that
// it was made for, and announcements have a level of their own.
struct Log::Impl {
  struct Loggers {
    std::shared_ptr<spdlog::logger> lines;
    std::shared_ptr<spdlog::logger> announcements;
  };

  // Not the queue that spdlog keeps for the whole process: the query log needs another one.
  explicit Impl(const LogOptions& options)
      : journal(is_for_journal(options) ? connect_to_journal() : FileDescriptor()),
        writer(std::make_shared<LineWriter>(journal ? journal.get() : options.fd)),
        pool(std::make_shared<spdlog::details::thread_pool>(options.queue_length, 1,
                                                            block_all_signals)) {
    const auto kind = journal                   ? LineSink::Kind::Journal
                      : is_for_journal(options) ? LineSink::Kind::Prefixed
                                                : LineSink::Kind::Plain;
    for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
      Loggers& loggers = of(format);
      loggers.lines = std::make_shared<spdlog::async_logger>(
          "log", std::make_shared<LineSink>(format, kind, writer), pool,
          spdlog::async_overflow_policy::overrun_oldest);
      loggers.announcements = loggers.lines->clone("announcements");
      loggers.announcements->set_level(spdlog::level::trace);
    }
  }
  // The thread first: each message in its queue holds a logger.
  ~Impl() { pool.reset(); }

  Loggers& of(LogFormat format) { return loggers_of_formats[static_cast<std::size_t>(format)]; }

  const FileDescriptor journal;  // invalid: the lines go to a stream
  std::shared_ptr<LineWriter> writer;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::array<Loggers, 2> loggers_of_formats;
  std::atomic<std::uint64_t> queued = 0;
};

RepeatedFold::RepeatedFold(std::chrono::milliseconds window, std::size_t max_keys)
    : window_(window), max_keys_(max_keys) {}

std::optional<std::uint64_t> RepeatedFold::admit(std::string_view key, Time now) {
  const std::scoped_lock lock(mutex_);
  auto entry = entries_.find(key);
  if (entry == entries_.end() && entries_.size() >= max_keys_) {
    key = kOtherKeys;
    entry = entries_.find(key);
  }
  if (entry == entries_.end()) {
    entries_.emplace(key, Entry{now, 0});
    return 0;
  }
  if (now - entry->second.written < window_) {
    ++entry->second.folded;
    return std::nullopt;
  }
  entry->second.written = now;
  return std::exchange(entry->second.folded, 0);
}

std::vector<RepeatedFold::Folded> RepeatedFold::take_expired(Time now) {
  const std::scoped_lock lock(mutex_);
  std::vector<Folded> folded;
  std::erase_if(entries_, [&](const auto& entry) {
    const bool expired = now - entry.second.written >= window_;
    if (expired && entry.second.folded > 0) folded.push_back({entry.first, entry.second.folded});
    return expired;
  });
  return folded;
}

Log::Log(const LogOptions& options)
    : format_(options.format), impl_(std::make_unique<Impl>(options)) {
  set_level(options.level);
}

Log::~Log() {
  flush();
  // The pool's destructor waits for its thread, which must not wait for a blocked stderr.
  impl_->writer->stop_waiting();
}

void Log::announce(std::string_view message, LogFields fields, std::uint64_t repeated) {
  const LogFormat format = format_.load(std::memory_order_relaxed);
  ++impl_->queued;
  const std::string payload = log_payload(format, message, fields, repeated);
  impl_->of(format).announcements->info(spdlog::string_view_t(payload));
}

void Log::write_folded(LogLevel level, std::string_view message, LogFields fields) {
  if (!enabled(level)) return;
  if (const auto repeated = fold_.admit(message, std::chrono::steady_clock::now()))
    write(level, message, fields, *repeated);
}

void Log::write_fold_counts() {
  for (const auto& folded : fold_.take_expired(std::chrono::steady_clock::now()))
    announce(folded.key, {}, folded.count);
}

std::uint64_t Log::dropped() const {
  return impl_->pool->overrun_counter() + impl_->writer->lost();
}

void Log::flush(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::uint64_t queued = impl_->queued;
  while (impl_->writer->handled() + impl_->pool->overrun_counter() < queued &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Log::write(LogLevel level, std::string_view message, LogFields fields,
                std::uint64_t repeated) {
  assert(level != LogLevel::Off);
  const LogFormat format = format_.load(std::memory_order_relaxed);
  spdlog::logger& logger = *impl_->of(format).lines;
  if (!logger.should_log(to_spdlog(level))) return;
  ++impl_->queued;
  const std::string payload = log_payload(format, message, fields, repeated);
  logger.log(to_spdlog(level), spdlog::string_view_t(payload));
}

bool Log::enabled(LogLevel level) const {
  return impl_->of(format_.load(std::memory_order_relaxed)).lines->should_log(to_spdlog(level));
}

LogLevel Log::level() const {
  return from_spdlog(impl_->of(format_.load(std::memory_order_relaxed)).lines->level());
}

void Log::set_level(LogLevel level) {
  for (const auto& loggers : impl_->loggers_of_formats) loggers.lines->set_level(to_spdlog(level));
}

}  // namespace meshdns::dnsd
