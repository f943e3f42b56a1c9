// SPDX-License-Identifier: Apache-2.0
// Frames to a reader over a Unix socket, or into a file, by the Frame Streams protocol
// (farsightsec/fstrm): a length before each frame, a handshake with who listens at the socket.
//
// A thread of its own writes; nobody waits for it.  While nobody reads, frames are kept up to a
// bound, then lost and counted.  A socket that goes away is tried again every second.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "dnsd/config/dnstap_target.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/file_descriptor.hpp"

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
  void run();
  bool open();
  bool shake_hands();
  // Returns the number of frames that were written: fewer than all after an error.
  std::size_t write_frames(const std::deque<Frame>& frames);
  void end_stream();
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
  FileDescriptor fd_;
  std::thread thread_;
};

}  // namespace meshdns::dnsd
