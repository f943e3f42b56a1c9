// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/fields.hpp"

#include <algorithm>
#include <bitset>
#include <cassert>

#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::registry {

namespace {

// Limit of names in one message; a Pod's spec has 44.
constexpr std::size_t kMaxNames = 64;

// Returns whether `given` is `known` in snake case: "export_to" is "exportTo".
bool is_snake_case_of(std::string_view given, std::string_view known) {
  std::size_t at = 0;
  for (const char c : known) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper) {
      if (at >= given.size() || given[at] != '_') return false;
      ++at;
    }
    if (at >= given.size() || given[at] != to_lower(c)) return false;
    ++at;
  }
  return at == given.size();
}

bool is_name_of(std::string_view given, std::string_view known, bool snake_case) {
  return given == known || (snake_case && is_snake_case_of(given, known));
}

// YAML 1.1's other words for booleans, which kubectl and istioctl read as such.
std::optional<bool> old_bool_word(const Node& node) {
  if (!node.is_scalar() || node.is_quoted()) return std::nullopt;
  const std::string_view text = node.text();
  const auto is_any_of = [&](auto... any) { return ((text == any) || ...); };
  if (is_any_of("yes", "Yes", "YES", "on", "On", "ON")) return true;
  if (is_any_of("no", "No", "NO", "off", "Off", "OFF")) return false;
  return std::nullopt;
}

// Text that ends in a colon, where YAML takes it for a key: "2001:db8::" at the end of a line.
bool is_text_taken_for_a_key(const Node& node) {
  return node.is_mapping() && node.size() == 1 && node.begin()->is_null();
}

std::string article_error(std::string_view expected, const Field& field) {
  std::string message = "expected ";
  message += expected;
  message += ", got ";
  message += field->describe();
  if (field->is_scalar() && !field->is_null()) {
    message += ' ';
    message += in_quotes(field->text());
  }
  return message;
}

}  // namespace

std::string Field::path() const {
  if (parent_ == nullptr) return {};
  std::string out = parent_->path();
  if (is_element_) {
    out += '[';
    out += std::to_string(index_);
    return out += ']';
  }
  if (!out.empty()) out += '.';
  return out += printable(node_->key());
}

std::string Field::path(std::string_view child) const {
  std::string out = path();
  if (!out.empty()) out += '.';
  return out += child;
}

void Report::add(Severity severity, std::uint32_t line, std::string field, std::string message) {
  const bool is_error = severity == Severity::Error;
  refused_ |= is_error;
  const std::size_t count = is_error ? ++errors_ : ++warnings_;
  const std::size_t max = is_error ? kMaxErrors : kMaxWarnings;
  if (count < max) return hand_on(severity, line, std::move(field), std::move(message));
  if (count > max) return;
  hand_on(severity, line, {},
          is_error ? "more errors of this object are not shown"
                   : "more warnings of this object are not shown");
}

void Report::hand_on(Severity severity, std::uint32_t line, std::string field,
                     std::string message) {
  std::string object = printable(namespace_);
  if (!object.empty()) object += '/';
  object += printable(name_);
  listener_({severity, std::string(path_), line, printable(kind_), std::move(object),
             std::move(field), std::move(message)});
}

Fields::Fields(Report& report, const Field& mapping, const FieldNames& names)
    : mapping_(&mapping), names_(names) {
  if (!mapping->is_mapping()) {
    report.error(mapping, article_error("a mapping", mapping));
    return;
  }
  if (report.warns_unknown()) check_names(report);
}

std::optional<Field> Fields::get(std::string_view name) const {
  if (!(*mapping_)->is_mapping()) return std::nullopt;
  for (const Node& value : mapping_->node()) {
    if (!is_name_of(value.key(), name, names_.snake_case)) continue;
    if (value.is_null()) return std::nullopt;
    return Field(*mapping_, value);
  }
  return std::nullopt;
}

void Fields::check_names(Report& report) const {
  std::bitset<kMaxNames> seen;
  std::bitset<kMaxNames> seen_again;
  assert(names_.names.size() <= kMaxNames);
  for (const Node& value : mapping_->node()) {
    const auto known = std::ranges::find_if(names_.names, [&](std::string_view name) {
      return is_name_of(value.key(), name, names_.snake_case);
    });
    if (known == names_.names.end()) {
      // Looking for the nearest name costs more than all the rest.
      if (!report.is_full())
        report.warning(Field(*mapping_, value), "unknown field" + guess_at(value.key()));
      continue;
    }
    const auto index = static_cast<std::size_t>(known - names_.names.begin());
    // Once for each name, however often it is repeated.
    if (seen[index] && !seen_again[index]) check_spellings(report, *known);
    seen_again[index] = seen[index];
    seen[index] = true;
  }
}

// A field that is there already was not meant.
std::string Fields::guess_at(std::string_view name) const {
  const auto guess = nearest_word(name, names_.names);
  if (!guess) return {};
  for (const Node& value : mapping_->node())
    if (is_name_of(value.key(), *guess, names_.snake_case)) return {};
  return did_you_mean(name, names_.names);
}

// Whether a field that is there several times has been given in both spellings.  The very same key
// twice is the document's fault, and reported there.
void Fields::check_spellings(Report& report, std::string_view name) const {
  const Node* first = nullptr;
  for (const Node& value : mapping_->node()) {
    if (!is_name_of(value.key(), name, names_.snake_case)) continue;
    if (first != nullptr && first->key() != value.key())
      return report.error(Field(*mapping_, value),
                          "the field is given twice, in both spellings of " + in_quotes(name));
    if (first == nullptr) first = &value;
  }
}

std::optional<std::string_view> read_string(Report& report, const Field& field) {
  if (const auto text = field->as_string()) return text;
  std::string message = article_error("a string", field);
  if (is_text_taken_for_a_key(field.node()))
    message += "; put " + in_quotes(std::string(field->begin()->key()) + ":") + " in quotes";
  else if (field->is_scalar() && !field->is_null())
    message += "; put it in quotes";
  report.error(field, std::move(message));
  return std::nullopt;
}

std::optional<bool> read_bool(Report& report, const Field& field) {
  if (const auto value = field->as_bool()) return value;
  if (const auto value = old_bool_word(field.node())) return value;
  report.error(field, article_error("true or false", field));
  return std::nullopt;
}

std::optional<std::int64_t> read_integer(Report& report, const Field& field, std::int64_t min,
                                         std::int64_t max) {
  const auto value = field->as_integer();
  if (value && *value >= min && *value <= max) return value;
  const bool is_number = value || field->describe() == "a number";
  const std::string range = std::to_string(min) + ".." + std::to_string(max);
  report.error(field, is_number ? printable(field->text()) + " is not a whole number in " + range
                                : article_error("a number in " + range, field));
  return std::nullopt;
}

std::optional<std::uint16_t> read_port(Report& report, const Field& field) {
  const auto value = read_integer(report, field, 1, 65535);
  if (!value) return std::nullopt;
  return static_cast<std::uint16_t>(*value);
}

std::optional<IpAddress> read_ip(Report& report, const Field& field) {
  const auto text = read_string(report, field);
  if (!text) return std::nullopt;
  const auto address = IpAddress::parse(*text);
  if (!address) report.error(field, in_quotes(*text) + " is not an IP address");
  return address;
}

std::string_view read_string_or_empty(Report& report, const std::optional<Field>& field) {
  if (!field) return {};
  return read_string(report, *field).value_or(std::string_view());
}

bool read_bool_or(Report& report, const std::optional<Field>& field, bool absent) {
  if (!field) return absent;
  return read_bool(report, *field).value_or(absent);
}

Labels read_labels(Report& report, const std::optional<Field>& field) {
  Labels labels;
  if (!field) return labels;
  if (!(*field)->is_mapping()) {
    report.error(*field, article_error("a mapping of strings", *field));
    return labels;
  }
  labels.reserve((*field)->size());
  for (const Node& node : field->node()) {
    const Field value(*field, node);
    // The API server reads a null as the empty string.
    if (node.is_null())
      labels.emplace_back(node.key(), "");
    else if (const auto text = read_string(report, value))
      labels.emplace_back(node.key(), *text);
  }
  std::ranges::sort(labels);
  return labels;
}

void read_value(Report& report, const Field& field, std::string& value) {
  value = read_string_or_empty(report, field);
}
void read_value(Report& report, const Field& field, bool& value) {
  value = read_bool_or(report, field, value);
}
void read_value(Report& report, const Field& field, std::uint16_t& port) {
  port = read_port(report, field).value_or(0);
}
void read_value(Report& report, const Field& field, Labels& labels) {
  labels = read_labels(report, field);
}
void read_value(Report& report, const Field& list, std::vector<std::string>& texts) {
  for_each_string(report, list, [&](const Field&, auto text) { texts.emplace_back(text); });
}
void read_value(Report& report, const Field& list, std::vector<IpAddress>& addresses) {
  for_each_element(report, list, [&](const Field& at) {
    if (const auto ip = read_ip(report, at)) addresses.push_back(*ip);
  });
}

std::optional<std::size_t> read_choice(Report& report, const Field& field,
                                       std::span<const std::string_view> names) {
  const auto text = read_string(report, field);
  if (!text) return std::nullopt;
  const auto found = std::ranges::find(names, *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string message = in_quotes(*text) + " is none of";
  for (const std::string_view name : names) {
    message += name == names.front() ? " " : ", ";
    message += name;
  }
  report.error(field, message + did_you_mean(*text, names));
  return std::nullopt;
}

std::size_t read_choice_or_first(Report& report, const std::optional<Field>& field,
                                 std::span<const std::string_view> names) {
  if (!field || (*field)->as_string() == "") return 0;
  return read_choice(report, *field, names).value_or(0);
}

bool require_mapping(Report& report, const Field& field) {
  if (field->is_mapping()) return true;
  report.error(field, "expected a mapping, got " + std::string(field->describe()));
  return false;
}

std::string_view member_text(const Node& mapping, std::string_view key) {
  const Node* const value = mapping.find(key);
  return value == nullptr ? std::string_view() : value->value();
}

std::uint16_t member_port(const Node& mapping, std::string_view key) {
  const Node* const value = mapping.find(key);
  const auto number = value == nullptr ? std::nullopt : value->as_integer();
  return number && *number > 0 && *number <= 0xffff ? static_cast<std::uint16_t>(*number) : 0;
}

Labels member_labels(const Node& mapping, std::string_view key) {
  Labels labels;
  const Node* const members = mapping.find(key);
  if (members == nullptr || !members->is_mapping()) return labels;
  for (const Node& label : *members) labels.emplace_back(label.key(), label.value());
  std::ranges::sort(labels);
  return labels;
}

const Node* find_below(const Node& object, std::initializer_list<std::string_view> path) {
  const Node* node = &object;
  for (const std::string_view key : path) {
    node = node->find(key);
    if (node == nullptr || node->is_null()) return nullptr;
  }
  return node;
}

const Node* find_condition(const Node* status, std::string_view type, std::string_view is) {
  const Node* const conditions = status == nullptr ? nullptr : status->find("conditions");
  if (conditions == nullptr || !conditions->is_sequence()) return nullptr;
  const auto found = std::ranges::find_if(*conditions, [&](const Node& each) {
    return each.find("status") != nullptr && member_text(each, "type") == type;
  });
  return found != conditions->end() && member_text(*found, "status") == is ? &*found : nullptr;
}

}  // namespace meshdns::registry
