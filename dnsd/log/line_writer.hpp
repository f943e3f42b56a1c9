// SPDX-License-Identifier: Apache-2.0
// Writes the lines of the log's thread to a file descriptor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace meshdns::dnsd {

// Writes to a descriptor that somebody else may have blocked: a pipe nobody reads, a terminal on
// hold, a full disk.  Never changes the descriptor's flags, which stderr shares with the process
// that started the daemon.  One thread calls write(); the rest is for any thread.
class LineWriter {
 public:
  explicit LineWriter(int fd);  // not owned

  // `line` ends with a newline.
  void write(std::string_view line);
  // From now on a line that cannot be written at once is given up.
  void stop_waiting() { patient_ = false; }
  std::uint64_t handled() const { return handled_; }  // written or given up
  std::uint64_t lost() const { return lost_; }        // given up

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  bool write_all(std::string_view text);
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
