// SPDX-License-Identifier: Apache-2.0
// Finds the memory limit of this process, so that no default is larger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

struct MemoryRange {
  std::uintptr_t begin = 0;
  std::size_t size = 0;  // octets
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

// Returns the mappings of files in `smaps` (/proc/PID/smaps, proc(5)) that cannot be written and
// have no page that differs from the file: the kernel can read all of their pages again.  A
// debugger's breakpoint or a relocation makes such a page.  Any thread.
std::vector<MemoryRange> unchanged_file_mappings(std::istream& smaps);

// Gives back the memory that only the start needed.
//
// The start runs code that is rarely used again: the dynamic linker, the reading of the
// configuration and of the sources.  Its pages stay mapped, with their neighbours, and are two
// thirds of the resident memory of a daemon with few names.  The same start leaves free blocks in
// the heap.  Control thread.
class StartMemory {
 public:
  // Call every second.  Gives back memory at one of the calls.  The page cache of the kernel keeps
  // the pages of files, so that using one again takes less than a microsecond.
  void tick();

 private:
  // Sources read new files a second time after 10 s.
  static constexpr int kStartSeconds = 12;

  int seconds_left_ = kStartSeconds;
};

// The lowest limit among this process's own control group and those above it, of version 1 or 2;
// nullopt: none has one, or none can be read.  `root`: below which proc and sys are.
std::optional<std::uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

// `cache.size: auto` in octets: the default, but no more than a quarter of the limit.  A size that
// was given stays as it is.
CacheConfig sized_cache(CacheConfig cache, std::optional<std::uint64_t> memory_limit);

// Logs the sizes that follow from the limit.
void tell_of_memory(const CacheConfig& cache, std::optional<std::uint64_t> memory_limit, Log& log);

}  // namespace meshdns::dnsd
