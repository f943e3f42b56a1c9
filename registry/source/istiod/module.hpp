// SPDX-License-Identifier: Apache-2.0
// Loads the module with gRPC.
#pragma once

#include <string>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/istiod/ads.hpp"

namespace meshdns::registry::istiod {

// The files that may be the module, in the order in which they are tried: beside the program (a
// build tree), and in the folder that the package has for it.
std::vector<std::string> module_paths();

// Loads the first of `paths` that exists.  The module stays loaded until the process ends, because
// gRPC's threads cannot be told to leave its code.  An Error names the file and the remedy.
Result<AdsModule*> load_module(const std::vector<std::string>& paths);

}  // namespace meshdns::registry::istiod
