// SPDX-License-Identifier: Apache-2.0
// Finds the times at which the machine stood still, or did something else: latencies of such times
// say nothing about a server.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace meshdns::bench {

struct Stall {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// A time of this length in which a core did not run what it should have run at once.
inline constexpr std::chrono::microseconds kShortestStall{500};

// Watches a core with a thread that sleeps for half a millisecond at a time and notes how late it
// wakes.  It precedes all normal threads, so that a server that is busy cannot make it late.
class StallWatch {
 public:
  // `core` -1: watches nothing.
  explicit StallWatch(int core);
  ~StallWatch() { stop(); }
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // False: the system does not permit the priority, and nothing is watched.
  bool is_watching() const { return is_watching_; }
  void stop();
  // REQUIRES: stopped.
  const std::vector<Stall>& stalls() const { return stalls_; }

 private:
  void watch(int core);

  std::vector<Stall> stalls_;
  std::atomic<bool> is_watching_ = false;
  std::atomic<bool> is_ending_ = false;
  std::atomic<bool> has_begun_ = false;
  std::thread thread_;
};

}  // namespace meshdns::bench
