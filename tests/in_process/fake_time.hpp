// SPDX-License-Identifier: Apache-2.0
// Time that stands still until the test moves it, for everything that reads a clock: libuv, the
// standard library and our own code.  It works below all of them, at clock_gettime(), so that the
// product needs no seam for it.
#pragma once

#include <chrono>

namespace meshdns::dnsd::test {

// While one lives, the clocks of its thread stand still.  Other threads have real time.  One at a
// time per thread.
class FakeTime {
 public:
  FakeTime();
  ~FakeTime();
  FakeTime(const FakeTime&) = delete;
  FakeTime& operator=(const FakeTime&) = delete;

  // Moves all clocks of this thread on.
  void advance(std::chrono::milliseconds by);
};

}  // namespace meshdns::dnsd::test
