// SPDX-License-Identifier: Apache-2.0
// Runs a program without waiting for it, and gathers what it prints.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

struct ExecCommand {
  std::string program;  // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;
  // Beside PATH and HOME, which are all that it gets of our own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  Milliseconds timeout{30'000};
};

// Destruction kills the program, with what it has started, and calls nobody.
class ExecProcess {
 public:
  virtual ~ExecProcess() = default;
};

// `done` gets the standard output of a program that ended well, or why there is none: 1 MiB at
// most. The program has no input, the standard error is ours, no other descriptors, the default
// actions and mask of signals, and a session of its own.  Never called from within this call; the
// process may be destroyed in it.
[[nodiscard]] std::unique_ptr<ExecProcess> run_program(
    uv_loop_s* loop, ExecCommand command, std::function<void(Result<std::string>)> done);

}  // namespace meshdns::registry::kubernetes
