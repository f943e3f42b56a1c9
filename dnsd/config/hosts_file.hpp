// SPDX-License-Identifier: Apache-2.0
// A hosts file as hosts(5) has it: "ADDRESS NAME [NAME...]", "#" begins a comment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct HostsFile {
  struct Entry {
    IpAddress address;
    std::uint32_t line = 0;          // 1-based
    std::vector<std::string> names;  // canonical; at least one
  };
  // A line that cannot be understood, or has such a name.
  struct Problem {
    std::uint32_t line = 0;  // 1-based
    std::string message;     // the reason, with the remedy
  };
  static constexpr std::size_t kMaxProblems = 100;

  std::vector<Entry> entries;     // in the order of the file
  std::size_t skipped = 0;        // lines with a problem
  std::vector<Problem> problems;  // the first kMaxProblems of them
};

// Never fails: invalid lines are skipped and counted.
HostsFile parse_hosts(std::string_view text);

// An Error where the file cannot be read, or is larger than 32 MiB (a long list of blocked names
// has 5).
Result<HostsFile> read_hosts_file(const std::string& path);

}  // namespace meshdns::dnsd
