// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace meshdns::dnsd {

// The daemon's life after its start.  Lameduck: it has been told to stop, says so to health checks,
// and still answers new queries.  Draining: it answers only the queries that it has.
enum class Phase : std::uint8_t { Serving, Lameduck, Draining };

}  // namespace meshdns::dnsd
