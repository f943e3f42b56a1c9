// SPDX-License-Identifier: Apache-2.0
// Commands that ask or change the running daemon: status, reload, flush, log-level and top.
#pragma once

#include <iosfwd>

#include "dnsd/cli/arguments.hpp"

namespace meshdns::dnsd {

// REQUIRES: the command is one of those above.  Prints the result to `out`, problems to `err`.
// Returns the exit status: 0, kExitRefused if the daemon refuses or is not ready, or kExitUsage if
// no daemon answers.
int run_control(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshdns::dnsd
