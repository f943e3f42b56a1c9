// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/timestamp.hpp"

#include <chrono>

namespace meshdns::registry {

namespace {

// Takes `count` digits, then the character `after` unless that is NUL.
std::optional<int> take_number(std::string_view& text, std::size_t count, char after) {
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
  const auto hours = take_number(text, 2, ':');
  if (!hours) return std::nullopt;
  const auto minutes = take_number(text, 2, '\0');
  if (!minutes) return std::nullopt;
  return std::chrono::minutes(sign * (*hours * 60 + *minutes));
}

}  // namespace

std::optional<std::int64_t> parse_timestamp_ms(std::string_view text) {
  using namespace std::chrono;
  const auto y = take_number(text, 4, '-');
  const auto m = y ? take_number(text, 2, '-') : std::nullopt;
  const auto d = m ? take_number(text, 2, 'T') : std::nullopt;
  const auto hour = d ? take_number(text, 2, ':') : std::nullopt;
  const auto minute = hour ? take_number(text, 2, ':') : std::nullopt;
  const auto second = minute ? take_number(text, 2, '\0') : std::nullopt;
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
