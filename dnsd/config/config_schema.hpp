// SPDX-License-Identifier: Apache-2.0
// The schema of the configuration file: every key with its type and range.
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd {

// The table of all sections.  Constant; any thread.
const schema::Codec<Config>& config_codec();

// Prints the settings of the mesh that MeshConfig may change, each with its value and its origin.
void print_in_force(schema::Json& json, const registry::MeshSettings& settings);

}  // namespace meshdns::dnsd
