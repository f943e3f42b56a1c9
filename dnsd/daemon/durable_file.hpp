// Files that survive a power cut: whole or as they were before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Any thread.  Writes beside `path`, syncs, renames over it, syncs the directory.  Readable by the
// owner alone.  The Error names the file and the reason; what was there before is still there then.
Result<void> write_durably(const std::string& path, std::span<const std::uint8_t> octets);

// An empty vector where there is no such file.
Result<std::vector<std::uint8_t>> read_octets(const std::string& path, std::size_t max_size);

}  // namespace meshdns::dnsd
