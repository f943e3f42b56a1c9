// SPDX-License-Identifier: Apache-2.0
// The growth of the processor time of a piece of work: whether it is linear in the size of its
// input.  Limits are wide, because the machine does other things, too.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iostream>
#include <limits>

#include "registry/base/cpu_time.hpp"

namespace meshdns::registry {

// The thread's processor time of one call, in milliseconds.
inline double milliseconds_of(const std::function<void()>& work) {
  const auto begin = thread_cpu_time();
  work();
  return std::chrono::duration<double, std::milli>(thread_cpu_time() - begin).count();
}

// The least time of a few calls of `work(size)`, which is the one that the machine disturbed least.
inline double least_milliseconds(const std::function<void(std::size_t)>& work, std::size_t size) {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < 3; ++i) least = std::min(least, milliseconds_of([&] { work(size); }));
  return least;
}

// How often the time for `size` has in it the time for an eighth of that: 8 of linear work, 64 of
// quadratic work.
inline double growth_by_eight(const std::function<void(std::size_t)>& work, std::size_t size) {
  const double small = least_milliseconds(work, size / 8);
  const double large = least_milliseconds(work, size);
  std::cout << "[ COST     ] " << small << " ms for " << size / 8 << ", " << large << " ms for "
            << size << '\n';
  return large / small;
}

}  // namespace meshdns::registry
