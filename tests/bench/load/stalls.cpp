// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load/stalls.hpp"

#include <pthread.h>
#include <sched.h>

namespace meshdns::bench {
namespace {

constexpr std::chrono::microseconds kNap{500};

bool take_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(core), &cores);
  const sched_param first{.sched_priority = 1};
  return pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) == 0 &&
         pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) == 0;
}

}  // namespace

StallWatch::StallWatch(int core) {
  if (core < 0) return;
  thread_ = std::thread([this, core] { watch(core); });
  has_begun_.wait(false);
}

void StallWatch::stop() {
  is_ending_ = true;
  if (thread_.joinable()) thread_.join();
}

void StallWatch::watch(int core) {
  is_watching_ = take_core(core);
  has_begun_ = true;
  has_begun_.notify_all();
  while (is_watching_ && !is_ending_) {
    const auto due = std::chrono::steady_clock::now() + kNap;
    std::this_thread::sleep_until(due);
    const auto woken = std::chrono::steady_clock::now();
    if (woken - due >= kShortestStall) stalls_.push_back({due, woken});
  }
}

}  // namespace meshdns::bench
