// SPDX-License-Identifier: Apache-2.0
// Finds the memory limit of this process, so that no default is larger.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The lowest limit among this process's own control group and those above it, of version 1 or 2;
// nullopt: none has one, or none can be read.  `root`: below which proc and sys are.
std::optional<std::uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

// `cache.size: auto` in octets: the default, but no more than a quarter of the limit.  A size that
// was given stays as it is.
CacheConfig sized_cache(CacheConfig cache, std::optional<std::uint64_t> memory_limit);

// Logs the sizes that follow from the limit.
void tell_of_memory(const CacheConfig& cache, std::optional<std::uint64_t> memory_limit, Log& log);

}  // namespace meshdns::dnsd
