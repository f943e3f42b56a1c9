// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/times.hpp"

#include <array>
#include <charconv>
#include <cmath>

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

// Takes `count` digits, then the character `after` unless that is NUL.
std::optional<int> take_digits(std::string_view& text, std::size_t count, char after) {
  if (text.size() < count + (after == '\0' ? 0 : 1)) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  if (after != '\0' && text[count] != after) return std::nullopt;
  text.remove_prefix(count + (after == '\0' ? 0 : 1));
  return value;
}

std::optional<std::int64_t> take_fraction_ms(std::string_view& text) {
  if (!text.starts_with('.')) return 0;
  text.remove_prefix(1);
  std::int64_t ms = 0;
  std::int64_t unit = 100;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    ms += unit * (text[digits] - '0');
    unit /= 10;
  }
  text.remove_prefix(digits);
  if (digits == 0) return std::nullopt;
  return ms;
}

// "Z", "+02:00", "-05:30".
std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (text.starts_with('Z') || text.starts_with('z')) {
    text.remove_prefix(1);
    return std::chrono::minutes(0);
  }
  if (!text.starts_with('+') && !text.starts_with('-')) return std::nullopt;
  const int sign = text.starts_with('-') ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2, ':');
  if (!hours) return std::nullopt;
  const auto minutes = take_digits(text, 2, '\0');
  if (!minutes) return std::nullopt;
  return std::chrono::minutes(sign * (*hours * 60 + *minutes));
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

std::optional<std::int64_t> parse_timestamp_ms(std::string_view text) {
  using namespace std::chrono;
  const auto y = take_digits(text, 4, '-');
  const auto m = y ? take_digits(text, 2, '-') : std::nullopt;
  const auto d = m ? take_digits(text, 2, 'T') : std::nullopt;
  const auto hour = d ? take_digits(text, 2, ':') : std::nullopt;
  const auto minute = hour ? take_digits(text, 2, ':') : std::nullopt;
  const auto second = minute ? take_digits(text, 2, '\0') : std::nullopt;
  if (!second) return std::nullopt;
  const auto fraction = take_fraction_ms(text);
  if (!fraction) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  const year_month_day date(year(*y), month(static_cast<unsigned>(*m)),
                            day(static_cast<unsigned>(*d)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const auto time = sys_days(date) + hours(*hour) + minutes(*minute) + seconds(*second) - *offset;
  return duration_cast<milliseconds>(time.time_since_epoch()).count() + *fraction;
}

}  // namespace meshdns::registry
