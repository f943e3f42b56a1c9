// SPDX-License-Identifier: Apache-2.0
// Log lines of the loader on stderr, in the form of the daemon's: `TIME LEVEL message key=value
// ...`.
//
// Not used: dnsd/log, which brings spdlog, rapidjson, and yaml-cpp with the configuration into a
// process with privileges.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

namespace meshdns::kernel {

enum class Level : std::uint8_t { Info, Warning, Error };

struct Field {
  std::string_view key;
  std::string value;
};

namespace log_line {

inline constexpr std::array<std::string_view, 3> kLevels = {"INFO", "WARN", "ERROR"};
inline constexpr std::array<int, 3> kPriorities = {6, 4, 3};  // of syslog(3)

// Escapes octets that are not printable, the backslash and the quote, as a zone file does.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c > ' ' && c < 0x7f && c != '\\' && c != '"')
      out += c;
    else if (c == ' ')
      out += ' ';
    else
      out += fmt::format("\\{:03}", static_cast<unsigned char>(c));
  }
  return out;
}

inline std::string shown(std::string_view value) {
  std::string text = escaped(value);
  if (!text.empty() && text.find_first_of(" =") == std::string::npos) return text;
  return '"' + text + '"';
}

inline std::string line_start(Level level) {
  const auto index = static_cast<std::size_t>(level);
  if (std::getenv("JOURNAL_STREAM") != nullptr) return fmt::format("<{}>", kPriorities[index]);
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch() % std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} ",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds.count(),
                     kLevels[index]);
}

}  // namespace log_line

// Writes one line.  Any value is safe.  If stderr is the journal's, the line has a priority in
// place of the time and the level.
inline void log(Level level, std::string_view message, std::initializer_list<Field> fields = {}) {
  std::string line = log_line::line_start(level);
  line += message;
  for (const Field& field : fields)
    line += fmt::format(" {}={}", field.key, log_line::shown(field.value));
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace meshdns::kernel
