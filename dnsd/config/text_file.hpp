// A small file, read as a whole.
#pragma once

#include <string>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// An Error ("PATH: reason") where `path` cannot be opened, is a directory, or is larger than 1 MiB.
Result<std::string> read_text_file(const std::string& path);

}  // namespace meshdns::dnsd
