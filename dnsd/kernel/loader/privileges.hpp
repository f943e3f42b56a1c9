// SPDX-License-Identifier: Apache-2.0
// Capabilities of this process.
#pragma once

#include "registry/base/result.hpp"

namespace meshdns::kernel {

// Fails, naming what is missing, unless the process may load programs (CAP_BPF), attach them
// (CAP_NET_ADMIN), compare pointers in them (CAP_PERFMON: the program compares the places of
// entries, and the kernel adds no mitigations for unprivileged programs) and, with `change_group`,
// give maps to another group (CAP_CHOWN).
Result<void> check_privileges(bool change_group);

// Gives up all capabilities but CAP_NET_ADMIN, which attaches the program to new interfaces, and
// the right to gain others by executing files.
Result<void> drop_privileges();

}  // namespace meshdns::kernel
