// SPDX-License-Identifier: Apache-2.0
// Writes the lines of the log's thread to a file descriptor.
#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace meshdns::dnsd {

// Writes to a descriptor that somebody else may have blocked: a pipe nobody reads, a terminal on
// hold, a full disk.  Never changes the descriptor's flags, which stderr shares with whoever
// started us.  One thread calls log(); the rest is for any thread.
class DescriptorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit DescriptorSink(int fd);  // not owned

  // From now on a line that cannot be written at once is given up.
  void stop_waiting() { patient_ = false; }
  std::uint64_t handled() const { return handled_; }  // written or given up
  std::uint64_t lost() const { return lost_; }        // given up

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  bool write_line(std::string_view line);
  long write_some(std::string_view rest) const;
  bool wait_writable(Deadline deadline) const;

  const int fd_;
  const bool is_socket_;   // the journal's stderr is one
  bool mid_line_ = false;  // log thread: the last line was given up half-way
  std::atomic<bool> patient_ = true;
  std::atomic<std::uint64_t> handled_ = 0;
  std::atomic<std::uint64_t> lost_ = 0;
};

}  // namespace meshdns::dnsd
