// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <iostream>
#include <span>

#include "dnsd/cli/arguments.hpp"
#include "dnsd/cli/commands.hpp"
#include "dnsd/daemon/signals.hpp"

namespace {

// Files are read whole, and again a while later.  Left to itself, glibc takes the second of two
// such blocks from its heap, and keeps it: 32 MiB at 100,000 names.
constexpr int kMappedBlockBytes = 1 << 20;

// The constructors of our libraries take some 10 ms, in which a signal would end the process.
// Functions of this section run before them.  Sanitizers have their own start, which must be first.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kBeforeConstructors)() = meshdns::dnsd::hold_signals;
#endif

}  // namespace

int main(int argc, char** argv) {
  using namespace meshdns::dnsd;
  hold_signals();
  mallopt(M_MMAP_THRESHOLD, kMappedBlockBytes);
  Arguments arguments;
  const std::span<const char* const> words(argv, static_cast<std::size_t>(argc));
  if (const auto status = parse_arguments(words, arguments, std::cout, std::cerr)) return *status;
  if (arguments.command != Command::Run) release_signals();
  if (arguments.is_control()) return run_control(arguments, std::cout, std::cerr);
  switch (arguments.command) {
    case Command::Run:
      return run_daemon(arguments, std::cerr);
    case Command::Check:
      return run_check(arguments, std::cout, std::cerr);
    case Command::Explain:
      return run_explain(arguments, std::cout, std::cerr);
    default:  // is_control()
      return kExitUsage;
  }
}
