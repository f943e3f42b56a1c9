// SPDX-License-Identifier: Apache-2.0
// Reading the fields of one object: where a value stands, what it may be, and what is said when it
// is something else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/document.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

using FindingListener = std::function<void(Finding&&)>;

// A value and its way down from the object.  Lives on the stack; a Field points at its parent, so
// that no path is built unless something is wrong.  REQUIRES: outlived by its parent.
class Field {
 public:
  explicit Field(const Node& root) : node_(&root) {}
  // `node` is a value of the mapping `parent`.
  Field(const Field& parent, const Node& node) : node_(&node), parent_(&parent) {}
  // `node` is element `index` of the list `parent`.
  Field(const Field& parent, const Node& node, std::size_t index)
      : node_(&node), parent_(&parent), index_(index), is_element_(true) {}

  const Node& node() const { return *node_; }
  const Node* operator->() const { return node_; }
  std::uint32_t line() const { return node_->line(); }
  // "spec.hosts[1]"; empty for the object itself.
  std::string path() const;
  // The path of a field below it that may be missing.
  std::string path(std::string_view child) const;

 private:
  const Node* node_;
  const Field* parent_ = nullptr;
  std::size_t index_ = 0;
  bool is_element_ = false;
};

// The findings on one object.  Control thread or any other, but one at a time.
class Report {
 public:
  // REQUIRES: `listener` outlives the report.
  Report(std::string_view path, bool warn_unknown, const FindingListener& listener)
      : path_(path), warn_unknown_(warn_unknown), listener_(listener) {}

  // Set the object that later findings name.  REQUIRES: the texts outlive the report.
  void set_kind(std::string_view kind) { kind_ = kind; }
  void set_object(std::string_view ns, std::string_view name) {
    namespace_ = ns;
    name_ = name;
  }

  void error(const Field& at, std::string message) { error(at, at.path(), std::move(message)); }
  void warning(const Field& at, std::string message) {
    add(Severity::Warning, at.line(), at.path(), std::move(message));
  }
  // For a field that is missing: the line of the one that should have it.
  void error(const Field& near, std::string path, std::string message) {
    add(Severity::Error, near.line(), std::move(path), std::move(message));
  }
  void add(Severity severity, std::uint32_t line, std::string field, std::string message);

  bool warns_unknown() const { return warn_unknown_; }
  // Returns whether further warnings would not be handed on.
  bool is_full() const { return warnings_ >= kMaxWarnings; }
  // Returns whether an error was found, so that the object is not taken.
  bool is_refused() const { return refused_; }

 private:
  // One object may have faults in every line; more findings are not useful and use memory.
  // Warnings never keep an error from being handed on.
  static constexpr std::size_t kMaxWarnings = 50;
  static constexpr std::size_t kMaxErrors = 1'000;

  void hand_on(Severity severity, std::uint32_t line, std::string field, std::string message);

  std::string_view path_;
  std::string_view kind_;
  std::string_view namespace_;
  std::string_view name_;
  bool warn_unknown_;
  bool refused_ = false;
  std::size_t warnings_ = 0;
  std::size_t errors_ = 0;
  const FindingListener& listener_;
};

// The field names of one message.
struct FieldNames {
  std::span<const std::string_view> names;
  // Also known by their names in the .proto file (export_to), as istiod's own JSON reader has it.
  bool snake_case = false;
};

// The fields of a mapping.  A value that is null counts as absent, as in the API server.
class Fields {
 public:
  // Reports a value that is no mapping (and then has no fields), and names that are not known.
  Fields(Report& report, const Field& mapping, const FieldNames& names);
  std::optional<Field> get(std::string_view name) const;
  const Field& parent() const { return *mapping_; }

 private:
  void check_names(Report& report) const;
  void check_spellings(Report& report, std::string_view name) const;
  std::string guess_at(std::string_view name) const;

  const Field* mapping_;
  FieldNames names_;
};

// A field of a message: its name, the rule that reads it, and the error of a message without it.
template <typename Rule>
struct FieldRule {
  std::string_view name;
  Rule rule;
  std::string_view missing = {};
};

struct SnakeCase {};
// Stands first in the messages of Istio: FieldNames::snake_case.
inline constexpr SnakeCase kSnakeCase;

// The words of a text: words<"a b"> is {"a", "b"}.
template <std::size_t N>
struct WordText {
  // NOLINTNEXTLINE(google-explicit-constructor): so that a literal is a template argument.
  consteval WordText(const char (&literal)[N]) { std::copy_n(literal, N, octets.begin()); }
  std::array<char, N> octets;
};
template <WordText Text>
constexpr auto words = [] {
  std::array<std::string_view, 1 + std::ranges::count(Text.octets, ' ')> out;
  std::string_view rest(Text.octets.data());
  for (std::string_view& word : out) {
    word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return out;
}();

template <typename Row>
constexpr std::size_t kNamesOf = 1;
template <std::size_t N>
constexpr std::size_t kNamesOf<std::array<std::string_view, N>> = N;

// The fields of one message as a table: FieldRules in the order of reading, and words<> for the
// fields that are known and not read by a rule.  A rule is a member that takes the value, a member
// function that takes the field, or a function of the report, the field and (unless it only checks)
// the struct that is read; one that returns false ends the reading of the message.
template <typename... Rows>
class Message {
 public:
  explicit constexpr Message(Rows... rows) : rows_(rows...) {
    std::size_t at = 0;
    (add(rows, at), ...);
  }
  explicit constexpr Message(SnakeCase, Rows... rows) : Message(rows...) { snake_case_ = true; }

  // NOLINTNEXTLINE(google-explicit-constructor): a Message is the names of its fields, and more.
  constexpr operator FieldNames() const { return {names_, snake_case_}; }
  const std::tuple<Rows...>& rows() const { return rows_; }

 private:
  template <typename Rule>
  constexpr void add(const FieldRule<Rule>& row, std::size_t& at) {
    names_[at++] = row.name;
  }
  template <std::size_t N>
  constexpr void add(const std::array<std::string_view, N>& names, std::size_t& at) {
    for (const std::string_view name : names) names_[at++] = name;
  }

  std::tuple<Rows...> rows_;
  std::array<std::string_view, (kNamesOf<Rows> + ...)> names_;
  bool snake_case_ = false;
};

// Each returns nullopt after reporting an error when the value is of another type.
std::optional<std::string_view> read_string(Report& report, const Field& field);
std::optional<bool> read_bool(Report& report, const Field& field);
std::optional<std::int64_t> read_integer(Report& report, const Field& field, std::int64_t min,
                                         std::int64_t max);
// 1..65535.
std::optional<std::uint16_t> read_port(Report& report, const Field& field);
std::optional<IpAddress> read_ip(Report& report, const Field& field);

// As above for a field that may be absent; an empty string then.
std::string_view read_string_or_empty(Report& report, const std::optional<Field>& field);
bool read_bool_or(Report& report, const std::optional<Field>& field, bool absent);

// A mapping of strings, sorted by key.
Labels read_labels(Report& report, const std::optional<Field>& field);

// Calls `visit(element)` for every element; an error when the value is no list.  Null elements are
// handed on: some lists have a word of their own for them.
template <typename Visitor>
void for_each_element(Report& report, const std::optional<Field>& list, Visitor&& visit) {
  if (!list) return;
  if (!(*list)->is_sequence()) {
    report.error(*list, "expected a list, got " + std::string((*list)->describe()));
    return;
  }
  std::size_t index = 0;
  for (const Node& node : list->node()) visit(Field(*list, node, index++));
}

// As for_each_element for a list of strings.
template <typename Visitor>
void for_each_string(Report& report, const std::optional<Field>& list, Visitor&& visit) {
  for_each_element(report, list, [&](const Field& element) {
    if (const auto text = read_string(report, element)) visit(element, *text);
  });
}

// One of the names of an enumeration; the index of it.
std::optional<std::size_t> read_choice(Report& report, const Field& field,
                                       std::span<const std::string_view> names);
// The same for an enumeration of Kubernetes, which defaults to its first name: absent and empty
// mean that.
std::size_t read_choice_or_first(Report& report, const std::optional<Field>& field,
                                 std::span<const std::string_view> names);

// For the rules of messages: each sets `value` unless an error is reported.
void read_value(Report& report, const Field& field, std::string& value);
void read_value(Report& report, const Field& field, bool& value);
void read_value(Report& report, const Field& field, std::uint16_t& port);
void read_value(Report& report, const Field& field, Labels& labels);
void read_value(Report& report, const Field& list, std::vector<std::string>& texts);
void read_value(Report& report, const Field& list, std::vector<IpAddress>& addresses);

template <typename Rule, typename T>
bool apply_rule(Report& report, const Field& field, const Rule& rule, T& into) {
  if constexpr (std::is_member_function_pointer_v<Rule>)
    return (into.*rule)(field), true;
  else if constexpr (std::is_member_pointer_v<Rule>)
    return read_value(report, field, into.*rule), true;
  else if constexpr (!std::is_invocable_v<Rule, Report&, const Field&, T&>)
    return rule(report, field), true;
  else if constexpr (std::is_same_v<std::invoke_result_t<Rule, Report&, const Field&, T&>, bool>)
    return rule(report, field, into);
  else
    return rule(report, field, into), true;
}

template <std::size_t N, typename T>
bool read_row(Report&, const Fields&, const std::array<std::string_view, N>&, T&) {
  return true;
}
template <typename Rule, typename T>
bool read_row(Report& report, const Fields& fields, const FieldRule<Rule>& row, T& into) {
  if (const auto field = fields.get(row.name)) return apply_rule(report, *field, row.rule, into);
  const Field& parent = fields.parent();
  if (!row.missing.empty() && parent->is_mapping())
    report.error(parent, parent.path(row.name), std::string(row.missing));
  return true;
}

// Reads the fields of a message by its table; false when a rule has ended the reading.
template <typename T, typename... Rows>
bool read_fields(Report& report, const Fields& fields, const Message<Rows...>& message, T& into) {
  return std::apply(
      [&](const auto&... row) { return (read_row(report, fields, row, into) && ...); },
      message.rows());
}

// Reads a value that is a message; false when it is no mapping.
template <typename T, typename... Rows>
bool read_message(Report& report, const Field& at, const Message<Rows...>& message, T& into) {
  const Fields fields(report, at, message);
  read_fields(report, fields, message, into);
  return at->is_mapping();
}

// Read into by messages that are only checked.
struct Checked {};

// Rules.  A message whose fields are those of the struct that is read, or are only checked:
template <const auto& Table>
constexpr auto nested =
    [](Report& report, const Field& at, auto& into) { read_message(report, at, Table, into); };
// a list of such messages:
template <const auto& Table>
constexpr auto each_nested = [](Report& report, const Field& list, auto& into) {
  for_each_element(report, list, [&](const Field& at) { read_message(report, at, Table, into); });
};
// a list of messages with a struct each, without the elements that are no mapping:
template <const auto& Table, auto List>
constexpr auto list_of = [](Report& report, const Field& list, auto& into) {
  for_each_element(report, list, [&](const Field& at) {
    typename std::remove_cvref_t<decltype(into.*List)>::value_type element;
    if (read_message(report, at, Table, element)) (into.*List).push_back(std::move(element));
  });
};
// a name of an enumeration, in the order of its values:
template <const auto& Names, auto Member>
constexpr auto enum_of = [](Report& report, const Field& at, auto& into) {
  using Choice = std::remove_cvref_t<decltype(into.*Member)>;
  into.*Member = static_cast<Choice>(read_choice(report, at, Names).value_or(0));
};
// the same when absent and empty are the first name:
template <const auto& Names, auto Member>
constexpr auto enum_or_first = [](Report& report, const Field& at, auto& into) {
  using Choice = std::remove_cvref_t<decltype(into.*Member)>;
  into.*Member = static_cast<Choice>(read_choice_or_first(report, at, Names));
};

// Returns whether a value is a mapping; else an error.
bool require_mapping(Report& report, const Field& field);

// Reading without judging: absent, null and of another type are the same.
std::string_view member_text(const Node& mapping, std::string_view key);
std::uint16_t member_port(const Node& mapping, std::string_view key);
Labels member_labels(const Node& mapping, std::string_view key);
// The value below `object` at the path of these keys; null: there is none.
const Node* find_below(const Node& object, std::initializer_list<std::string_view> path);
// The first of the `conditions` of a status with that type, if that has this status: "True" or
// "False"; else null.  `status`: null: there is none.
const Node* find_condition(const Node* status, std::string_view type, std::string_view is);

// Calls `visit` for each part of a text with commas that is not empty without `blanks` around it.
template <typename Visit>
void for_each_part(std::string_view text, std::string_view blanks, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    part.remove_prefix(std::min(part.find_first_not_of(blanks), part.size()));
    part = part.substr(0, part.find_last_not_of(blanks) + 1);
    if (!part.empty()) visit(part);
  }
}

// Calls `visit` for the elements of a list that may be absent; a warning when it is none.
template <typename Visit>
void for_each_of(Report& report, const Field& parent, std::string_view name, const Visit& visit) {
  const Node* const list = parent->find(name);
  if (list == nullptr || list->is_null()) return;
  const Field at(parent, *list);
  if (!list->is_sequence()) return report.warning(at, "is not a list; it is left out");
  std::size_t index = 0;
  for (const Node& node : *list) visit(Field(at, node, index++));
}

}  // namespace meshdns::registry
