// SPDX-License-Identifier: Apache-2.0
// Durations and times in the fields of resources.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace meshdns::registry {

// Parses a duration as Istio's fields have it: Go's "1h30m", "1.5s", "300ms".  Returns nullopt if
// `text` is not a duration, or longer than 292 years.
std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

// Parses a time as the Kubernetes API writes it: RFC 3339 ("2026-01-31T12:00:00Z", with fraction or
// offset).  Returns Unix milliseconds.
std::optional<std::int64_t> parse_timestamp_ms(std::string_view text);

}  // namespace meshdns::registry
