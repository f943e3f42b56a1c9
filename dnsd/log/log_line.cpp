// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <iterator>

#include "dnsd/log/log.hpp"
#include "dnsd/log/printable.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

// Together they keep every line below 4,000 octets, so that a write to a pipe is atomic
// (PIPE_BUF), whatever a client put into a name.
constexpr std::size_t kMaxLine = 4000;
constexpr std::size_t kMaxMessage = 1500;  // in JSON at most twice as long
constexpr std::size_t kMaxValue = 1100;    // a name of 255 octets, all escaped

// An octet is shown as one or more: what lies beyond kMaxValue would be cut in any case.
std::string cut(std::string shown, std::size_t limit) {
  if (shown.size() > limit) shown.replace(limit - 3, std::string::npos, "...");
  return shown;
}

std::string shown_value(std::string_view text) {
  return cut(printable(text.substr(0, kMaxValue + 1)), kMaxValue);
}

// What a message quotes has been escaped already, and is not to be escaped again.
std::string shown_message(std::string_view text) {
  return cut(registry::printable(text, kMaxMessage), kMaxMessage);
}

void append_time(std::string& out, std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  fmt::format_to(std::back_inserter(out), "{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, unix_ms % 1000);
}

void append_json_string(std::string& out, std::string_view shown_text) {
  out += '"';
  for (const char c : shown_text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

// Bare where no reader could misread it, else in quotes, with a quote inside as \034.
void append_text_value(std::string& out, std::string_view shown_text) {
  if (!shown_text.empty() && shown_text.find_first_of(" \"=") == std::string_view::npos) {
    out += shown_text;
    return;
  }
  out += '"';
  for (const char c : shown_text) {
    if (c == '"')
      out += "\\034";
    else
      out += c;
  }
  out += '"';
}

template <typename AppendString>
void append_value(std::string& out, const LogField::Value& value, AppendString append_string) {
  std::visit(
      [&]<typename T>(const T& v) {
        if constexpr (std::same_as<T, std::string_view>)
          append_string(out, shown_value(v));
        else if constexpr (std::same_as<T, double>)
          out += std::isfinite(v) ? fmt::format("{}", v) : "null";
        else
          fmt::format_to(std::back_inserter(out), "{}", v);
      },
      value);
}

std::string text_field(const LogField& field) {
  std::string out = fmt::format(" {}=", field.key);
  append_value(out, field.value, append_text_value);
  return out;
}

std::string json_field(const LogField& field) {
  std::string out = fmt::format(",\"{}\":", field.key);
  append_value(out, field.value, append_json_string);
  return out;
}

// Leaves out the fields that no longer fit.
template <typename Format>
void append_fields(std::string& line, LogFields fields, std::uint64_t repeated, Format format) {
  for (const LogField& field : fields) {
    const std::string text = format(field);
    if (line.size() + text.size() < kMaxLine - 64) line += text;
  }
  if (repeated > 0) line += format(LogField("repeated", repeated));
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}

}  // namespace

std::string format_log_line(LogFormat format, LogLevel level, std::int64_t unix_ms,
                            std::string_view message, LogFields fields, std::uint64_t repeated) {
  std::string line;
  if (format == LogFormat::Text) {
    append_time(line, unix_ms);
    fmt::format_to(std::back_inserter(line), " {} {}", upper(to_string(level)),
                   shown_message(message));
    append_fields(line, fields, repeated, text_field);
    return line;
  }
  line += "{\"time\":\"";
  append_time(line, unix_ms);
  line += fmt::format("\",\"level\":\"{}\",\"message\":", to_string(level));
  append_json_string(line, shown_message(message));
  append_fields(line, fields, repeated, json_field);
  return line + "}";
}

}  // namespace meshdns::dnsd
