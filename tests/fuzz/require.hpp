// SPDX-License-Identifier: Apache-2.0
// What a fuzz target promises: a broken promise ends the program, which is a finding.
#pragma once

#include <cstdlib>

namespace meshdns::fuzz {

inline void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace meshdns::fuzz
