// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/start_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace meshdns::dnsd {
namespace {

// "7f01-7f05 r-xp 0002e000 fe:00 1234    /usr/bin/meshdnsd"; nullopt: writable, or of no file.
std::optional<MemoryRange> read_only_file(const std::string& line) {
  std::istringstream fields(line);
  MemoryRange range;
  std::uintptr_t end = 0;
  char dash = 0;
  std::string permissions, offset, device, inode, path;
  fields >> std::hex >> range.begin >> dash >> end >> permissions >> offset >> device >> inode >>
      path;
  if (!fields || permissions.size() != 4 || end <= range.begin) return std::nullopt;
  if (permissions[1] == 'w' || permissions[3] != 'p' || !path.starts_with('/')) return std::nullopt;
  range.size = end - range.begin;
  return range;
}

}  // namespace

std::vector<MemoryRange> unchanged_file_mappings(std::istream& smaps) {
  std::vector<MemoryRange> ranges;
  std::optional<MemoryRange> current;
  for (std::string line; std::getline(smaps, line);) {
    const bool is_field = !line.empty() && line.front() >= 'A' && line.front() <= 'Z';
    if (!is_field) current = read_only_file(line);
    if (!current || !line.starts_with("Anonymous:")) continue;
    std::istringstream value(line.substr(line.find(':') + 1));
    std::size_t kibibytes = 1;
    if (value >> kibibytes && kibibytes == 0) ranges.push_back(*current);
  }
  return ranges;
}

void StartMemory::tick() {
  if (seconds_left_ == 0) return;
  --seconds_left_;
  if (seconds_left_ > 0) return;
  malloc_trim(0);
  std::ifstream smaps("/proc/self/smaps");
  for (const MemoryRange& range : unchanged_file_mappings(smaps)) {
    // The kernel tells addresses as numbers.  NOLINTNEXTLINE(performance-no-int-to-ptr)
    void* const begin = reinterpret_cast<void*>(range.begin);
    // Fails for memory that is locked, which is to stay.
    (void)madvise(begin, range.size, MADV_DONTNEED);
  }
}

}  // namespace meshdns::dnsd
