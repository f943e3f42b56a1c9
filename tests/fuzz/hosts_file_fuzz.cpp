// SPDX-License-Identifier: Apache-2.0
// Any text as a hosts file: it ends, and what it calls an entry has canonical names.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dnsd/config/hosts_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshdns::dnsd;
  const HostsFile file = parse_hosts({reinterpret_cast<const char*>(data), size});
  if ((file.skipped == 0) != file.problems.empty()) std::abort();
  for (const HostsFile::Entry& entry : file.entries) {
    if (entry.names.empty()) std::abort();
    for (const std::string& name : entry.names) {
      // Written out again it is the same entry.
      const HostsFile again = parse_hosts(entry.address.to_string() + " " + name + "\n");
      if (again.skipped != 0 || again.entries.size() != 1 ||
          again.entries[0].address != entry.address || again.entries[0].names[0] != name)
        std::abort();
    }
  }
  return 0;
}
