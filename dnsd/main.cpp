#include <iostream>
#include <span>

#include "dnsd/cli/arguments.hpp"
#include "dnsd/daemon/commands.hpp"

int main(int argc, char** argv) {
  using namespace meshdns::dnsd;
  Arguments arguments;
  const std::span<const char* const> words(argv, static_cast<std::size_t>(argc));
  if (const auto status = parse_arguments(words, arguments, std::cout, std::cerr)) return *status;
  switch (arguments.command) {
    case Command::Run:
      return run_daemon(arguments, std::cerr);
    case Command::Check:
      return run_check(arguments, std::cout, std::cerr);
    case Command::Explain:
      return run_explain(arguments, std::cout, std::cerr);
  }
  return kExitUsage;
}
