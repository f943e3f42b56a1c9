// SPDX-License-Identifier: Apache-2.0
// Durations as Istio's fields have them: Go's "1h30m", "1.5s", "300ms".
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace meshdns::registry {

// nullopt when `text` is no duration, or longer than 292 years.
std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

}  // namespace meshdns::registry
