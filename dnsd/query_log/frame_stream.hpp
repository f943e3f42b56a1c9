// SPDX-License-Identifier: Apache-2.0
// Sends frames to a reader at a Unix socket or to a file, with the Frame Streams protocol of
// libfstrm.
//
// A thread of its own writes, and no worker waits for it.  While there is no reader, frames are
// queued up to a limit, then dropped and counted.  The thread connects again every second.
//
// The thread and its queue are not libfstrm's fstrm_iothr: that discards frames while there is no
// reader and does not count them, and fstrm_iothr_destroy waits for a hanging reader for ever.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"

struct fstrm_writer;

namespace meshdns::dnsd {

// Any thread, save construction and close().
class FrameStream {
 public:
  using Frame = std::vector<std::uint8_t>;
  static constexpr std::size_t kMaxQueued = std::size_t{16} << 20;  // octets

  // REQUIRES: `log` outlives it.
  FrameStream(DnstapTarget target, Log& log);
  ~FrameStream() { close(); }
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  void push(Frame frame);
  // Writes the queued frames and ends the stream.  A reader that hangs delays it by a few seconds
  // at most; the remaining frames are dropped.  Frames pushed afterwards are not counted.
  void close();

  const DnstapTarget& target() const { return target_; }
  // Each frame that was pushed is counted once, as written or as dropped.
  std::uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct CloseWriter {
    void operator()(fstrm_writer* writer) const;
  };

  void run();
  bool open_until_closing();
  bool open();
  // Returns the number of frames that were written: fewer than all after an error.
  std::size_t write_frames(std::deque<Frame>& frames);
  std::deque<Frame> take(std::chrono::milliseconds limit);

  // Constant after construction.
  const DnstapTarget target_;
  Log& log_;

  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> dropped_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Frame> queue_;
  std::size_t queued_octets_ = 0;
  bool closing_ = false;

  // The thread's.
  std::unique_ptr<fstrm_writer, CloseWriter> writer_;  // null: not connected
  std::thread thread_;
};

}  // namespace meshdns::dnsd
