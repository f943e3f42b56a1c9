// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/env_file.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/in_quotes.hpp"

namespace meshdns::dnsd {
namespace {

bool is_variable_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads the text once, from the first character to the last.
class EnvReader {
 public:
  explicit EnvReader(std::string_view text) : rest_(text) {}

  std::expected<EnvFile, registry::SyntaxError> read() {
    for (skip_to_assignment(); !rest_.empty() && problem_.empty(); skip_to_assignment())
      read_assignment();
    if (!problem_.empty()) return std::unexpected(registry::SyntaxError{line_, problem_});
    return std::move(values_);
  }

 private:
  void fail_with(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\n') ++line_;
    return c;
  }

  void skip_comment() { rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size())); }

  void skip_to_assignment() {
    while (!rest_.empty()) {
      if (rest_.front() == '#')
        skip_comment();
      else if (std::string_view(" \t\r\n;").contains(rest_.front()))
        take();
      else
        return;
    }
  }

  void read_assignment() {
    if (rest_.starts_with("export ")) {
      rest_.remove_prefix(7);
      skip_to_assignment();
    }
    const std::uint32_t line = line_;
    const auto end = std::ranges::find_if_not(rest_, is_variable_character);
    const std::string name(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    if (name.empty() || !rest_.starts_with('='))
      return fail_with("is not an assignment; write it as in \"NAME='value'\"");
    take();
    values_[name] = {read_word(), line};
    if (!problem_.empty()) problem_ = name + ": " + problem_;
  }

  std::string read_word() {
    std::string word;
    while (!rest_.empty() && problem_.empty() &&
           !std::string_view(" \t\r\n;").contains(rest_.front()))
      read_part(word);
    return word;
  }

  // One character, or all that is between two quotes.
  void read_part(std::string& word) {
    switch (const char c = take()) {
      case '\'':
        return read_quoted(word, '\'');
      case '"':
        return read_quoted(word, '"');
      case '\\':
        return read_escaped(word);
      case '$':
      case '`':
      case '&':
      case '|':
      case '<':
      case '>':
      case '(':
      case ')':
        return fail_with(std::string("has an unquoted ") + in_quotes(std::string_view(&c, 1)) +
                         ", which needs a shell; write the value itself, in single quotes");
      default:
        word += c;
    }
  }

  void read_quoted(std::string& word, char quote) {
    while (!rest_.empty() && problem_.empty()) {
      if (rest_.front() == quote) return static_cast<void>(take());
      if (quote == '"' && is_special_in_double_quotes())
        read_part(word);
      else
        word += take();
    }
    fail_with("has a quote that does not end; add it");
  }

  // A backslash before any other character is one.
  bool is_special_in_double_quotes() const {
    if (rest_.front() == '\\')
      return rest_.size() > 1 && std::string_view("\\\"$`\n").contains(rest_[1]);
    return rest_.front() == '$' || rest_.front() == '`';
  }

  // A backslash before the end of a line joins two lines.
  void read_escaped(std::string& word) {
    if (rest_.empty()) return fail_with("ends with a backslash; remove it");
    if (const char c = take(); c != '\n') word += c;
  }

  std::string_view rest_;
  std::uint32_t line_ = 1;
  std::string problem_;
  EnvFile values_;
};

}  // namespace

std::expected<EnvFile, registry::SyntaxError> parse_env_file(std::string_view text) {
  return EnvReader(text).read();
}

}  // namespace meshdns::dnsd
