// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/fake_time.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <optional>

namespace meshdns::dnsd::test {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

struct Moment {
  timespec realtime{};
  timespec monotonic{};
};

// Constant initialised: the dynamic linker may read a clock before any constructor runs.
thread_local constinit std::optional<Moment> fake_moment;

timespec real(clockid_t clock) {
  timespec time{};
  syscall(SYS_clock_gettime, clock, &time);
  return time;
}

timespec later(timespec time, std::int64_t nanos) {
  nanos += time.tv_nsec;
  time.tv_sec += nanos / kNanosPerSecond;
  time.tv_nsec = nanos % kNanosPerSecond;
  return time;
}

}  // namespace

FakeTime::FakeTime() { fake_moment = Moment{real(CLOCK_REALTIME), real(CLOCK_MONOTONIC)}; }

FakeTime::~FakeTime() { fake_moment.reset(); }

void FakeTime::advance(std::chrono::milliseconds by) {
  const std::int64_t nanos = std::chrono::nanoseconds(by).count();
  fake_moment->realtime = later(fake_moment->realtime, nanos);
  fake_moment->monotonic = later(fake_moment->monotonic, nanos);
}

}  // namespace meshdns::dnsd::test

// Takes the place of the C library's function in the whole program, shared libraries included.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto& fake = meshdns::dnsd::test::fake_moment;
  if (fake) {
    switch (clock) {
      case CLOCK_REALTIME:
      case CLOCK_REALTIME_COARSE:
        *time = fake->realtime;
        return 0;
      case CLOCK_MONOTONIC:
      case CLOCK_MONOTONIC_COARSE:
      case CLOCK_MONOTONIC_RAW:
      case CLOCK_BOOTTIME:
        *time = fake->monotonic;
        return 0;
      default:
        break;
    }
  }
  return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}
