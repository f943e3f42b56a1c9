// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace meshdns::kernel {
namespace {

constexpr std::array<std::string_view, 3> kLevels = {"INFO", "WARN", "ERROR"};
constexpr std::array<int, 3> kPriorities = {6, 4, 3};  // of syslog(3)

// Escapes octets that are not printable, the backslash and the quote, as a zone file does.
std::string escaped(std::string_view text) {
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

std::string shown(std::string_view value) {
  std::string text = escaped(value);
  if (!text.empty() && text.find_first_of(" =") == std::string::npos) return text;
  return '"' + text + '"';
}

std::string line_start(Level level) {
  const auto index = static_cast<std::size_t>(level);
  if (std::getenv("JOURNAL_STREAM") != nullptr) return fmt::format("<{}>", kPriorities[index]);
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch() % std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} ",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds.count(),
                     kLevels[index]);
}

}  // namespace

void log(Level level, std::string_view message, std::initializer_list<Field> fields) {
  std::string line = line_start(level);
  line += message;
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, shown(field.value));
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace meshdns::kernel
