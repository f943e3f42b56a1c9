// SPDX-License-Identifier: Apache-2.0
// The rule for calls of the event loop: no result is ignored.  A call that can fail for want of
// something (descriptors, memory) is handled where it stands.  A call that fails only when we break
// the loop's rules goes through check_loop(), because a timer that never fires or a socket that
// nobody hears leaves a daemon that runs and does not work.
#pragma once

namespace meshdns {

// Ends the process by SIGABRT, with a line on standard error, when `status` is an error: libuv's,
// which is a negative errno.  `what`: what could not be done, "start a timer".
void check_loop(int status, const char* what);

}  // namespace meshdns
