// SPDX-License-Identifier: Apache-2.0
// The commands of the command line: run, check, explain.  Each returns the process's exit status.
#pragma once

#include <ostream>

#include "dnsd/cli/arguments.hpp"

namespace meshdns::dnsd {

int run_daemon(const Arguments& arguments, std::ostream& err);
int run_check(const Arguments& arguments, std::ostream& out, std::ostream& err);
int run_explain(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshdns::dnsd
