// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/line_format.hpp"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <spdlog/pattern_formatter.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

// Together they keep every line below 4,000 octets, so that a write to a pipe is atomic
// (PIPE_BUF), whatever a client put into a name.
constexpr std::size_t kMaxFields = 3860;   // a payload without `repeated`; time and level: 60 more
constexpr std::size_t kMaxMessage = 1500;  // in JSON at most twice as long
constexpr std::size_t kMaxValue = 1100;    // a name of 255 octets, all escaped

// Names arrive as in zone files and must not be escaped again: printable() leaves a backslash as it
// is.  An octet is shown as one or more, so kMaxValue + 1 octets of a text are enough.
std::string cut(std::string shown, std::size_t limit) {
  if (shown.size() > limit) shown.replace(limit - 3, std::string::npos, "...");
  return shown;
}

std::string shown_value(std::string_view text) {
  return cut(registry::printable(text, kMaxValue + 1), kMaxValue);
}

std::string shown_message(std::string_view text) {
  return cut(registry::printable(text, kMaxMessage), kMaxMessage);
}

// Numbers and truth values are the same in both forms; nullopt for text.
std::optional<std::string> bare_value(const LogField::Value& value) {
  return std::visit(
      []<typename T>(const T& v) -> std::optional<std::string> {
        if constexpr (std::same_as<T, std::string_view>) return std::nullopt;
        if constexpr (std::same_as<T, double>)
          if (!std::isfinite(v)) return "null";
        return fmt::format("{}", v);
      },
      value);
}

// Bare where no reader could misread it, else in quotes, with a quote inside as \" (RFC 1035,
// section 5.1).  A backslash at the end would escape what follows, and becomes \092.
std::string text_value(std::string_view text) {
  const std::string shown = shown_value(text);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const bool is_escape = shown[i] == '\\';
    if (is_escape && i + 1 == shown.size()) {
      out += "\\092";
    } else {
      if (shown[i] == '"') out += '\\';
      out += shown[i];
      if (is_escape) out += shown[++i];
    }
  }
  const bool is_bare = !shown.empty() && shown.find_first_of(" \"=") == std::string::npos;
  return is_bare ? out : '"' + out + '"';
}

std::string text_field(const LogField& field) {
  const auto bare = bare_value(field.value);
  return fmt::format(" {}={}", field.key,
                     bare ? *bare : text_value(std::get<std::string_view>(field.value)));
}

std::string text_payload(std::string_view message, LogFields fields, std::uint64_t repeated) {
  std::string out = shown_message(message);
  for (const LogField& field : fields) {
    const std::string text = text_field(field);
    if (out.size() + text.size() < kMaxFields) out += text;  // else it is left out
  }
  if (repeated > 0) out += text_field({"repeated", repeated});
  return out;
}

using JsonWriter = rapidjson::Writer<rapidjson::StringBuffer>;

void put_text(JsonWriter& json, std::string_view text) {
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

// Size that a field adds to the object: comma, quotes, colon and value.
std::size_t json_size(std::string_view key, std::string_view shown, bool is_text) {
  const auto escapes = std::ranges::count_if(shown, [](char c) { return c == '"' || c == '\\'; });
  return key.size() + 4 + shown.size() +
         (is_text ? 2 + static_cast<std::size_t>(escapes) : std::size_t{0});
}

void put_json(JsonWriter& json, const rapidjson::StringBuffer& buffer, const LogField& field) {
  const auto bare = bare_value(field.value);
  const std::string shown = bare ? *bare : shown_value(std::get<std::string_view>(field.value));
  if (buffer.GetSize() + json_size(field.key, shown, !bare) >= kMaxFields) return;  // left out
  json.Key(field.key.data(), static_cast<rapidjson::SizeType>(field.key.size()));
  if (bare)
    json.RawValue(shown.data(), shown.size(), rapidjson::kNumberType);
  else
    put_text(json, shown);
}

std::string json_payload(std::string_view message, LogFields fields, std::uint64_t repeated) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("message");
  put_text(json, shown_message(message));
  for (const LogField& field : fields) put_json(json, buffer, field);
  if (repeated > 0) {
    json.Key("repeated");
    json.Uint64(repeated);
  }
  json.EndObject();
  return {buffer.GetString() + 1, buffer.GetSize() - 1};  // the formatter begins the object
}

// Our names of the levels.  spdlog says "warning".
class LevelFlag final : public spdlog::custom_flag_formatter {
 public:
  explicit LevelFlag(LogFormat format) : format_(format) {}
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    for (const char c : to_string(from_spdlog(message.level)))
      to.push_back(format_ == LogFormat::Text ? static_cast<char>(c - 'a' + 'A') : c);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelFlag>(format_);
  }

 private:
  const LogFormat format_;
};

}  // namespace

std::string log_payload(LogFormat format, std::string_view message, LogFields fields,
                        std::uint64_t repeated) {
  return format == LogFormat::Text ? text_payload(message, fields, repeated)
                                   : json_payload(message, fields, repeated);
}

namespace {

constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%*",%v)";

std::unique_ptr<spdlog::formatter> make_formatter(LogFormat format, const char* text_pattern,
                                                  const char* end) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc, end);
  formatter->add_flag<LevelFlag>('*', format);
  formatter->set_pattern(format == LogFormat::Text ? text_pattern : kJsonPattern);
  return formatter;
}

}  // namespace

std::unique_ptr<spdlog::formatter> make_line_formatter(LogFormat format) {
  return make_formatter(format, "%Y-%m-%dT%H:%M:%S.%eZ %* %v", "\n");
}

std::unique_ptr<spdlog::formatter> make_journal_formatter(LogFormat format) {
  return make_formatter(format, "%* %v", "");
}

}  // namespace meshdns::dnsd
