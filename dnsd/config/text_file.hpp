// SPDX-License-Identifier: Apache-2.0
// A small file, read as a whole.
#pragma once

#include <cstddef>
#include <string>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kMaxTextSize = std::size_t{1} << 20;

// An Error ("PATH: reason") where `path` cannot be opened, is a directory, or is larger than
// `max_size`.  A byte order mark at its beginning is left out.
Result<std::string> read_text_file(const std::string& path, std::size_t max_size = kMaxTextSize);

}  // namespace meshdns::dnsd
