// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/core_dumps.hpp"

#include <sys/prctl.h>

namespace meshdns::dnsd {

void allow_core_dumps(bool allowed) {
  // It fails for other values only.
  (void)::prctl(PR_SET_DUMPABLE, allowed ? 1 : 0, 0, 0, 0);
}

}  // namespace meshdns::dnsd
