// SPDX-License-Identifier: Apache-2.0
// The output of `meshdns-kernel status`.
#pragma once

#include <string>

#include "registry/base/result.hpp"

namespace meshdns::kernel {

// Interfaces with the program, the daemon's heartbeat, entries and counters, as text.  `maps` is
// the folder of the pinned maps.
Result<std::string> describe_status(const std::string& maps);

}  // namespace meshdns::kernel
