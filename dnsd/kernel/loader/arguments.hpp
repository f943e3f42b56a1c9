// SPDX-License-Identifier: Apache-2.0
// Parses the command line of meshdns-kernel (docs/man/meshdns-kernel.8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshdns::kernel {

enum class Command : std::uint8_t { Run, Status, Detach };

struct Arguments {
  Command command = Command::Run;
  std::string maps = "/run/meshdns.bpf/maps";
  // Patterns of fnmatch(3) for the names of interfaces.
  std::vector<std::string> interfaces = {"veth*", "cali*", "lxc*"};
  std::uint32_t answers = 16384;
  std::uint32_t clients = 4096;
  std::string user;    // name, or UID:GID; empty = only root uses the maps
  bool unpin = false;  // remove the maps at the end
};

inline constexpr int kExitUsage = 2;

// Fills `arguments` and returns nullopt; or prints and returns the exit status: 0 after --help or
// --version, kExitUsage after a mistake.
std::optional<int> parse_arguments(int argc, const char* const* argv, Arguments& arguments);

}  // namespace meshdns::kernel
