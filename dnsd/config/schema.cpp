// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/schema.hpp"

#include <algorithm>

#include "dnsd/config/values.hpp"
#include "registry/base/did_you_mean.hpp"

namespace meshdns::dnsd::schema {
namespace {

constexpr std::size_t kMaxPathShown = 300;

std::string_view last_part(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

std::string join(std::span<const std::string_view> words) {
  std::string joined;
  for (const std::string_view word : words) {
    joined += joined.empty() ? "" : ", ";
    joined += word;
  }
  return joined;
}

}  // namespace

Place Place::at(std::string_view key) const {
  Place below = *this;
  if (!below.key_.empty()) below.key_ += '.';
  below.key_ += registry::printable(key);
  return below;
}

Place Place::at(std::size_t index) const {
  Place below = *this;
  below.key_ += '[';
  below.key_ += std::to_string(index);
  below.key_ += ']';
  return below;
}

void Place::error(std::uint32_t line, std::string message) const {
  report(registry::Severity::Error, line, std::move(message));
}

void Place::warn(std::uint32_t line, std::string message) const {
  report(registry::Severity::Warning, line, std::move(message));
}

void Place::report(registry::Severity severity, std::uint32_t line, std::string message) const {
  findings_->add({severity, file_, line, "", "", registry::printable(key_, kMaxPathShown),
                  std::move(message)});
}

void wrong_type(const Node& node, const Place& place, std::string_view wanted) {
  std::string message = "expected ";
  message += wanted;
  message += ", found ";
  message += node.describe();
  if (node.is_scalar() && !node.is_null() && wanted == "a list")
    message += "; write [" + in_quotes(node.text()) + "]";
  if (node.is_null()) message += "; remove the key to use its default";
  place.error(node.line(), std::move(message));
}

bool is_mapping(const Node& node, const Place& place) {
  if (!node.is_mapping()) wrong_type(node, place, "a mapping");
  return node.is_mapping();
}

std::optional<std::string_view> read_text(const Node& node, const Place& place) {
  if (node.is_scalar() && !node.is_null()) return node.text();
  wrong_type(node, place, "text");
  return std::nullopt;
}

std::optional<std::size_t> read_choice(const Node& node, const Place& place,
                                       std::span<const std::string_view> names) {
  const auto text = read_text(node, place);
  if (!text) return std::nullopt;
  const auto found = std::ranges::find(names, *text);
  if (found != names.end()) return found - names.begin();
  place.error(node.line(), in_quotes(*text) + " is not one of: " + join(names));
  return std::nullopt;
}

AnyField make_field(std::string_view key, std::unique_ptr<const Access> access,
                    const std::vector<std::string>& keys_below) {
  return {key, std::move(access), keys_below};
}

Codec<std::string> text(std::size_t max_length) {
  const auto parse = [=](std::string_view value) -> Result<std::string> {
    if (value.size() > max_length)
      return fail("is longer than " + std::to_string(max_length) + " bytes");
    if (value.find('\0') != std::string_view::npos) return fail("contains a NUL byte");
    return std::string(value);
  };
  return text_value(parse);
}

Codec<bool> boolean() {
  return {[](const Node& node, const Place& place) -> std::optional<bool> {
            if (!node.is_quoted() && node.text() == "true") return true;
            if (!node.is_quoted() && node.text() == "false") return false;
            if (!node.is_scalar() || node.is_null())
              wrong_type(node, place, "true or false");
            else
              place.error(node.line(), in_quotes(node.text()) +
                                           " is not a boolean; write true or false" +
                                           (!node.is_quoted() ? "" : " without quotes"));
            return std::nullopt;
          },
          [](Json& json, const bool& value) { json.Bool(value); }};
}

namespace {

// Reads a number with `parse`.  A number in quotes is text, and an error.
template <typename V, typename Parse>
std::optional<V> read_number(const Node& node, const Place& place, Parse parse) {
  if (!node.is_scalar() || node.is_null()) {
    wrong_type(node, place, "a number");
    return std::nullopt;
  }
  const Result<V> value = parse(node.text());
  if (value && !node.is_quoted()) return *value;
  place.error(node.line(),
              value ? in_quotes(node.text()) + " is text; write the number without quotes"
                    : value.error().message);
  return std::nullopt;
}

}  // namespace

Codec<std::uint32_t> number(std::uint32_t min, std::uint32_t max) {
  const auto parse = [=](std::string_view digits) -> Result<std::uint32_t> {
    const auto value = parse_unsigned(digits);
    if (value && *value >= min && *value <= max) return static_cast<std::uint32_t>(*value);
    return fail(in_quotes(digits) + " is not a whole number from " + std::to_string(min) + " to " +
                std::to_string(max));
  };
  return {[=](const Node& node, const Place& place) {
            return read_number<std::uint32_t>(node, place, parse);
          },
          [](Json& json, const std::uint32_t& value) { json.Uint(value); }};
}

Codec<double> share() {
  return {[](const Node& node, const Place& place) {
            return read_number<double>(node, place, parse_share);
          },
          [](Json& json, const double& value) { json.Double(value); }};
}

std::string unknown_key_message(std::string_view key, const std::vector<std::string>& siblings) {
  std::vector<std::string_view> here;
  std::string below;  // where exactly this key would be known
  for (const std::string& known : siblings) {
    if (known.find('.') == std::string::npos)
      here.push_back(known);
    else if (last_part(known) == key)
      below += (below.empty() ? "" : " or ") + in_quotes(known);
  }
  if (!below.empty()) return "unknown key; did you mean " + below + "?";
  const auto near = nearest_word(key, here);
  if (near) return "unknown key; did you mean " + in_quotes(*near) + "?";
  return "unknown key; valid keys are: " + join(here);
}

bool read_fields(const Fields& fields, const Node& node, const Place& place, void* section) {
  if (!is_mapping(node, place)) return false;
  for (const Node& entry : node) {
    const Place at = place.at(entry.key());
    const auto f = std::ranges::find(fields, entry.key(), &AnyField::key);
    if (f == fields.end()) {
      at.error(entry.line(), unknown_key_message(entry.key(), keys_of(fields)));
      continue;
    }
    at.note(entry.line());
    f->access->read(entry, at, section);
  }
  return true;
}

void print_fields(const Fields& fields, Json& json, const void* section) {
  json.StartObject();
  for (const AnyField& f : fields) {
    print_key(json, f.key);
    f.access->print(json, section);
  }
  json.EndObject();
}

std::uint32_t line_of(const Node& section, std::string_view key) {
  const Node* value = section.find(key);
  return value == nullptr ? section.line() : value->line();
}

}  // namespace meshdns::dnsd::schema
