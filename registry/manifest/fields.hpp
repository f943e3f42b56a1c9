// SPDX-License-Identifier: Apache-2.0
// Reading the fields of one object: where a value stands, what it may be, and what is said when it
// is something else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  // Whether further warnings would not be handed on.
  bool is_full() const { return warnings_ >= kMaxWarnings; }
  // Whether an error was found, so that the object is not taken.
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

// Each returns nullopt after reporting an error when the value is of another type.
std::optional<std::string_view> read_string(Report& report, const Field& field);
std::optional<bool> read_bool(Report& report, const Field& field);
std::optional<std::int64_t> read_integer(Report& report, const Field& field, std::int64_t min,
                                         std::int64_t max);
// 1..65535.
std::optional<std::uint16_t> read_port(Report& report, const Field& field);

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

// `; did you mean "x"?` when one of the names is near (nearest_word), else nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);

// One of the names of an enumeration; the index of it.
std::optional<std::size_t> read_choice(Report& report, const Field& field,
                                       std::span<const std::string_view> names);
// The same for an enumeration of Kubernetes, which defaults to its first name: absent and empty
// mean that.
std::size_t read_choice_or_first(Report& report, const std::optional<Field>& field,
                                 std::span<const std::string_view> names);

}  // namespace meshdns::registry
