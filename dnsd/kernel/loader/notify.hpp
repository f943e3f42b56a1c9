// SPDX-License-Identifier: Apache-2.0
// Tells systemd that the loader is ready.
#pragma once

namespace meshdns::kernel {

// Sends `state`, such as READY=1, as sd_notify(3) does; nothing if systemd did not ask.  The
// loader has privileges, so it does without libsystemd and the libraries that this one needs.
void notify(const char* state);

}  // namespace meshdns::kernel
