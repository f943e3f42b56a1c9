// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/document.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "registry/manifest/tree_builder.hpp"

namespace meshdns::registry {

namespace {

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::optional<bool> bool_word(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> integer_word(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) base = 16;
  if (text.starts_with("0o")) base = 8;
  if (base != 10) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || stop != text.data() + text.size())
    return std::nullopt;
  const std::uint64_t limit = std::uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (value > limit) return std::nullopt;
  return static_cast<std::int64_t>(negative ? ~value + 1 : value);
}

// An integer of any size or a floating-point number of the core schema.
bool is_number_word(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == ".nan" || text == ".NaN")
    return true;
  if (text[0] != '.' && (text[0] < '0' || text[0] > '9')) return false;
  if (integer_word(text)) return true;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return stop == text.data() + text.size() && error != std::errc::invalid_argument;
}

ReadResult check_size(std::string_view text, const DocumentLimits& limits) {
  if (text.size() <= limits.max_bytes) return {};
  return std::unexpected(
      SyntaxError{0, "the text has " + std::to_string(text.size()) + " bytes; the limit is " +
                         std::to_string(limits.max_bytes) + "; split it into several files"});
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

ReadResult read_json_or_yaml(std::string_view text, TreeBuilder& builder) {
  const auto end = read_json_run(text, {}, builder);
  if (!end) return std::unexpected(end.error());
  if (end->offset == text.size()) return {};
  return read_yaml_rest(text, *end, builder);
}

ReadResult read_bounded(std::string_view text, const DocumentLimits& limits,
                        const DocumentListener& listener,
                        ReadResult (*read)(std::string_view, TreeBuilder&)) {
  if (auto size = check_size(text, limits); !size) return size;
  TreeBuilder builder(limits);
  builder.set_listener(&listener);
  return read(without_byte_order_mark(text), builder);
}

}  // namespace

bool Node::is_null() const { return is_scalar() && !quoted_ && is_null_word(text()); }

std::optional<bool> Node::as_bool() const {
  if (!is_scalar() || quoted_) return std::nullopt;
  return bool_word(text());
}

std::optional<std::int64_t> Node::as_integer() const {
  if (!is_scalar() || quoted_) return std::nullopt;
  return integer_word(text());
}

std::optional<std::string_view> Node::as_string() const {
  if (!is_scalar()) return std::nullopt;
  if (quoted_) return text();
  const std::string_view word = text();
  // Most words already fail this look at their first letter.
  constexpr std::string_view beginnings = "~nNtTfF+-.0123456789";
  if (!word.empty() && beginnings.find(word.front()) == std::string_view::npos) return word;
  if (is_null_word(word) || bool_word(word) || is_number_word(word)) return std::nullopt;
  return word;
}

std::string_view Node::describe() const {
  if (is_mapping()) return "a mapping";
  if (is_sequence()) return "a list";
  if (quoted_) return "a string";
  if (is_null()) return "null";
  if (as_bool()) return "a boolean";
  return is_number_word(text()) ? "a number" : "a string";
}

const Node* Node::find(std::string_view key) const {
  if (!is_mapping()) return nullptr;
  for (const Node& value : *this)
    if (value.key() == key) return &value;
  return nullptr;
}

ReadResult read_handwritten_documents(std::string_view text, const DocumentLimits& limits,
                                      const DocumentListener& listener) {
  return read_bounded(text, limits, listener, read_handwritten_yaml);
}

ReadResult read_documents(std::string_view text, const DocumentLimits& limits,
                          const DocumentListener& listener) {
  return read_bounded(text, limits, listener, read_json_or_yaml);
}

JsonParser::JsonParser(DocumentLimits limits)
    : builder_(std::make_unique<TreeBuilder>(limits)), limits_(std::move(limits)) {}
JsonParser::~JsonParser() = default;
JsonParser::JsonParser(JsonParser&&) noexcept = default;

std::expected<const Node*, SyntaxError> JsonParser::parse(std::string_view text,
                                                          std::uint32_t envelope_levels) {
  if (auto size = check_size(text, limits_); !size) return std::unexpected(size.error());
  builder_->set_envelope_levels(envelope_levels);
  if (auto read = read_one_json(without_byte_order_mark(text), *builder_); !read)
    return std::unexpected(read.error());
  return builder_->root();
}

std::span<const DocumentProblem> JsonParser::problems() const { return builder_->problems(); }

}  // namespace meshdns::registry
