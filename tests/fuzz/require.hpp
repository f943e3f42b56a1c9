// SPDX-License-Identifier: Apache-2.0
// Assertions of fuzz targets: a failed one ends the program, which the fuzzer reports.
#pragma once

#include <cstdlib>

namespace meshdns::fuzz {

inline void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace meshdns::fuzz
