// SPDX-License-Identifier: Apache-2.0
// Whether the memory of this process may leave it.
#pragma once

namespace meshdns::dnsd {

// False: the kernel writes no core file, and other processes of the same user can neither attach to
// this one nor read its memory or descriptors below /proc/PID, which then belong to root
// (PR_SET_DUMPABLE of prctl(2)).  The memory holds tokens, cookie secrets and what clients ask for.
// Programs that are started from here are not affected.  Any thread; for the whole process.
void allow_core_dumps(bool allowed);

}  // namespace meshdns::dnsd
