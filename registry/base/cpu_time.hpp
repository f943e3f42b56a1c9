// SPDX-License-Identifier: Apache-2.0
// The processor time that the calling thread has used.  On a busy machine the time of the clock is
// many times longer.
#pragma once

#include <chrono>
#include <ctime>

namespace meshdns {

inline std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace meshdns
