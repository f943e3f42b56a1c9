// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/log.hpp"

#include <pthread.h>
#include <signal.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>

#include <cassert>
#include <thread>

#include "dnsd/log/descriptor_sink.hpp"

namespace meshdns::dnsd {
namespace {

// Signals belong to the control thread; without SIGPIPE, a closed stderr is only a failed write.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

std::int64_t unix_ms_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct Log::Impl {
  Impl(int fd, std::size_t queue_length)
      : sink(std::make_shared<DescriptorSink>(fd)),
        pool(std::make_shared<spdlog::details::thread_pool>(queue_length, 1, block_all_signals)),
        logger(std::make_shared<spdlog::async_logger>(
            "meshdnsd", sink, pool, spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(spdlog::level::trace);  // Log decides
  }
  // The thread first: each message in its queue holds the logger.
  ~Impl() { pool.reset(); }

  std::shared_ptr<DescriptorSink> sink;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
  std::atomic<std::uint64_t> queued = 0;
};

Log::Log(const LogOptions& options)
    : level_(options.level),
      format_(options.format),
      impl_(std::make_unique<Impl>(options.fd, options.queue_length)) {}

Log::~Log() {
  flush();
  // The pool's destructor waits for its thread, which must not wait for a blocked stderr.
  impl_->sink->stop_waiting();
}

void Log::write(LogLevel level, std::string_view message, LogFields fields) {
  assert(level != LogLevel::Off);
  if (enabled(level)) enqueue(level, message, fields, 0);
}

void Log::announce(std::string_view message, LogFields fields) {
  enqueue(LogLevel::Info, message, fields, 0);
}

void Log::write_folded(LogLevel level, std::string_view message, LogFields fields) {
  assert(level != LogLevel::Off);
  if (!enabled(level)) return;
  if (const auto repeated = fold_.admit(message, std::chrono::steady_clock::now()))
    enqueue(level, message, fields, *repeated);
}

void Log::write_fold_counts() {
  for (const auto& folded : fold_.take_expired(std::chrono::steady_clock::now()))
    enqueue(LogLevel::Info, folded.key, {}, folded.count);
}

std::uint64_t Log::dropped() const { return impl_->pool->overrun_counter() + impl_->sink->lost(); }

void Log::flush(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::uint64_t queued = impl_->queued;
  while (impl_->sink->handled() + impl_->pool->overrun_counter() < queued &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Log::enqueue(LogLevel level, std::string_view message, LogFields fields,
                  std::uint64_t repeated) {
  const std::string line = format_log_line(format_.load(std::memory_order_relaxed), level,
                                           unix_ms_now(), message, fields, repeated);
  ++impl_->queued;
  impl_->logger->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace meshdns::dnsd
