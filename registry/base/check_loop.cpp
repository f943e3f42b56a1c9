// SPDX-License-Identifier: Apache-2.0
#include "registry/base/check_loop.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace meshdns {

void check_loop(int status, const char* what) {
  if (status >= 0) [[likely]]
    return;
  (void)std::fprintf(stderr, "meshdnsd: the event loop fails to %s: %s\n", what,
                     std::strerror(-status));
  std::abort();
}

}  // namespace meshdns
