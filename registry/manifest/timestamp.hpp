// SPDX-License-Identifier: Apache-2.0
// Times as the Kubernetes API writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace meshdns::registry {

// RFC 3339 ("2026-01-31T12:00:00Z", with fraction or offset) in Unix milliseconds.
std::optional<std::int64_t> parse_timestamp_ms(std::string_view text);

}  // namespace meshdns::registry
