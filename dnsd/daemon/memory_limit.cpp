// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/memory_limit.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "dnsd/config/values.hpp"

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

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCachePart = 4;
// Version 1 says "none" with the largest number of whole pages that there is.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> read_limit(const fs::path& file) {
  const auto text = read_text_file(file.string());
  if (!text) return std::nullopt;
  std::uint64_t limit = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (error != std::errc{} || limit == 0 || limit >= kNoLimit) return std::nullopt;  // "max"
  return limit;
}

// The path of a group may not exist in a container that sees only its own part of the tree.  Then
// its parents are asked, up to the root that we see.
std::optional<std::uint64_t> lowest_limit(const fs::path& mount, fs::path group, const char* file) {
  std::optional<std::uint64_t> lowest;
  for (;;) {
    const auto limit = read_limit(mount / group / file);
    if (limit && (!lowest || *limit < *lowest)) lowest = limit;
    if (group.empty()) return lowest;
    group = group.parent_path();
  }
}

// "4:memory:/a/b" of version 1, "0::/a/b" of version 2 (cgroups(7)).
std::optional<std::uint64_t> limit_of_line(const fs::path& root, std::string_view line) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const std::string controllers =
      "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
  const fs::path group = fs::path(line.substr(second + 1)).relative_path();
  // Outside of what we see.
  if (std::ranges::find(group, "..") != group.end()) return std::nullopt;
  const fs::path mount = root / "sys/fs/cgroup";
  if (controllers == ",,") return lowest_limit(mount, group, "memory.max");
  if (!controllers.contains(",memory,")) return std::nullopt;
  return lowest_limit(mount / "memory", group, "memory.limit_in_bytes");
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_limit(const fs::path& root) {
  std::optional<std::uint64_t> lowest;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto limit = limit_of_line(root, line);
    if (limit && (!lowest || *limit < *lowest)) lowest = limit;
  }
  return lowest;
}

CacheConfig sized_cache(CacheConfig cache, std::optional<std::uint64_t> memory_limit) {
  if (cache.has_default_size && memory_limit)
    cache.size_bytes =
        std::min<std::uint64_t>(CacheConfig().size_bytes, *memory_limit / kCachePart);
  return cache;
}

void tell_of_memory(const CacheConfig& cache, std::optional<std::uint64_t> memory_limit, Log& log) {
  const std::string size = format_size(cache.size_bytes);
  const std::string limit = memory_limit ? format_size(*memory_limit) : "none";
  log.info("memory", {{"cache.size", std::string_view(size)},
                      {"auto", cache.has_default_size},
                      {"cgroup_limit", std::string_view(limit)}});
}

}  // namespace meshdns::dnsd
