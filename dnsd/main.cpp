#include <malloc.h>

#include <iostream>
#include <span>

#include "dnsd/cli/arguments.hpp"
#include "dnsd/daemon/commands.hpp"

namespace {

// Files are read whole, and again a while later.  Left to itself, glibc takes the second of two
// such blocks from its heap, and keeps it: 32 MiB at 100,000 names.
constexpr int kMappedBlockBytes = 1 << 20;

}  // namespace

int main(int argc, char** argv) {
  using namespace meshdns::dnsd;
  mallopt(M_MMAP_THRESHOLD, kMappedBlockBytes);
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
