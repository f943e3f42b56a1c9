// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/duration.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace meshdns::registry {

namespace {

struct Unit {
  std::string_view name;
  double nanoseconds;
};

// Longer names come before those that they begin with.
constexpr std::array kUnits = {Unit{"ns", 1},        Unit{"us", 1e3},  Unit{"\u00b5s", 1e3},
                               Unit{"\u03bcs", 1e3}, Unit{"ms", 1e6},  Unit{"s", 1e9},
                               Unit{"m", 60e9},      Unit{"h", 3600e9}};

// Takes a decimal number off the front; nullopt when there is none.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return std::nullopt;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Takes a unit off the front; its length in nanoseconds, or nullopt.
std::optional<double> take_unit(std::string_view& text) {
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return unit.nanoseconds;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return std::chrono::nanoseconds(0);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const auto number = take_number(text);
    const auto unit = number ? take_unit(text) : std::nullopt;
    if (!unit) return std::nullopt;
    total += *number * *unit;
  }
  if (total >= static_cast<double>(INT64_MAX)) return std::nullopt;
  const auto nanoseconds = static_cast<std::int64_t>(std::llround(total));
  return std::chrono::nanoseconds(is_negative ? -nanoseconds : nanoseconds);
}

}  // namespace meshdns::registry
