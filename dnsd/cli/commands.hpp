// SPDX-License-Identifier: Apache-2.0
// The commands of the command line: run, check, explain.  Each returns the process's exit status.
#pragma once

#include <iosfwd>
#include <ostream>

#include "dnsd/cli/arguments.hpp"

namespace meshdns::dnsd {

// Commands that ask or change the running daemon: status, reload, flush,
// log-level, top and dependencies.
// REQUIRES: the command is one of those above.  Prints the result to `out`, problems to `err`.
// Returns the exit status: 0, kExitRefused if the daemon refuses or is not ready, or kExitUsage if
// no daemon answers.
int run_control(const Arguments& arguments, std::ostream& out, std::ostream& err);

int run_daemon(const Arguments& arguments, std::ostream& err);
int run_check(const Arguments& arguments, std::ostream& out, std::ostream& err);
int run_explain(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshdns::dnsd
