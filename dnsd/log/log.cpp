// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/log.hpp"

#include <pthread.h>
#include <signal.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>

#include <array>
#include <cassert>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "dnsd/log/journal.hpp"
#include "dnsd/log/line_format.hpp"
#include "dnsd/log/line_writer.hpp"

namespace meshdns::dnsd {
namespace {

bool is_for_journal(const LogOptions& options) {
  return is_journal_stream(options.fd, options.journal_stream);
}

// Signals belong to the control thread; without SIGPIPE, a closed stderr is only a failed write.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// Gives lines of one format to the writer.
class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  LineSink(LogFormat format, std::shared_ptr<LineWriter> writer)
      : base_sink(make_line_formatter(format)), writer_(std::move(writer)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_->write({line.data(), line.size()});
  }
  void flush_() override {}

  const std::shared_ptr<LineWriter> writer_;
};

}  // namespace

// Gives entries to the journal's socket.  If there is none: lines to the stream, with the prefix by
// which systemd knows the priority.
class JournalSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  JournalSink(LogFormat format, bool is_native, std::shared_ptr<LineWriter> writer)
      : base_sink(make_journal_formatter(format)),
        is_native_(is_native),
        writer_(std::move(writer)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    const LogLevel level = from_spdlog(message.level);
    if (is_native_)
      writer_->write(journal_entry(level, text, {message.payload.data(), message.payload.size()}));
    else
      writer_->write("<" + std::to_string(syslog_priority(level)) + ">" + std::string(text) + "\n");
  }
  void flush_() override {}

  const bool is_native_;
  const std::shared_ptr<LineWriter> writer_;
};

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
    for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
      Loggers& loggers = of(format);
      loggers.lines = std::make_shared<spdlog::async_logger>(
          "log", make_sink(format, options), pool, spdlog::async_overflow_policy::overrun_oldest);
      loggers.announcements = loggers.lines->clone("announcements");
      loggers.announcements->set_level(spdlog::level::trace);
    }
  }
  // The thread first: each message in its queue holds a logger.
  ~Impl() { pool.reset(); }

  spdlog::sink_ptr make_sink(LogFormat format, const LogOptions& options) const {
    if (is_for_journal(options))
      return std::make_shared<JournalSink>(format, bool(journal), writer);
    return std::make_shared<LineSink>(format, writer);
  }

  Loggers& of(LogFormat format) { return loggers_of_formats[static_cast<std::size_t>(format)]; }

  const FileDescriptor journal;  // invalid: the lines go to a stream
  std::shared_ptr<LineWriter> writer;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::array<Loggers, 2> loggers_of_formats;
  std::atomic<std::uint64_t> queued = 0;
};

Log::Log(const LogOptions& options)
    : format_(options.format), impl_(std::make_unique<Impl>(options)) {
  set_level(options.level);
}

Log::~Log() {
  flush();
  // The pool's destructor waits for its thread, which must not wait for a blocked stderr.
  impl_->writer->stop_waiting();
}

void Log::write(LogLevel level, std::string_view message, LogFields fields) {
  write(level, message, fields, 0);
}

void Log::announce(std::string_view message, LogFields fields) { announce(message, fields, 0); }

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
