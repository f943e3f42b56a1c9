// SPDX-License-Identifier: Apache-2.0
// The `key=value` fields of a log line.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>

namespace meshdns::dnsd {

// One `key=value` of a line.  The text must live until the call that takes it returns.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  template <typename T>
  LogField(std::string_view k, const T& v) : key(k), value(to_value(v)) {}

  std::string_view key;
  Value value;

 private:
  template <typename T>
  static Value to_value(const T& v) {
    if constexpr (std::same_as<T, bool>)
      return v;
    else if constexpr (std::floating_point<T>)
      return static_cast<double>(v);
    else if constexpr (std::signed_integral<T>)
      return static_cast<std::int64_t>(v);
    else if constexpr (std::unsigned_integral<T>)
      return static_cast<std::uint64_t>(v);
    else
      return std::string_view(v);
  }
};
using LogFields = std::initializer_list<LogField>;

}  // namespace meshdns::dnsd
