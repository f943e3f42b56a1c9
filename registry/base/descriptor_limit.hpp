// SPDX-License-Identifier: Apache-2.0
// The number of file descriptors that this process may have.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace meshdns {

// The soft limit, 2^30 where it is higher or there is none.  Any thread.
inline std::uint32_t descriptor_limit() {
  constexpr rlim_t most = 1U << 30;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  return static_cast<std::uint32_t>(std::min(limit.rlim_cur, most));
}

}  // namespace meshdns
