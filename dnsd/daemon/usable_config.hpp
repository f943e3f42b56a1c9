// A configuration that this build can serve: load_config and, beyond it, what is declared but not
// built in.
#pragma once

#include <string>

#include "dnsd/config/load.hpp"

namespace meshdns::dnsd {

// As load_config; a source whose kind is not built in is an error among the findings, never
// silence.
Result<LoadedConfig> load_usable_config(const std::string& path);

}  // namespace meshdns::dnsd
