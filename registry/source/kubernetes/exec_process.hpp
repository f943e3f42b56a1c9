// Runs a program without waiting for it, and gathers what it prints.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/kubernetes/scheduler.hpp"

namespace meshdns::registry::kubernetes {

struct ExecCommand {
  std::string program;  // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;
  // Beside our own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  Milliseconds timeout{30'000};
};

// Destruction kills the program and calls nobody.
class ExecProcess {
 public:
  virtual ~ExecProcess() = default;
};

// `done` gets the standard output of a program that ended well, or why there is none.  Never called
// from within this call; the process may be destroyed in it.
[[nodiscard]] std::unique_ptr<ExecProcess> run_program(
    uv_loop_s* loop, ExecCommand command, std::function<void(Result<std::string>)> done);

}  // namespace meshdns::registry::kubernetes
