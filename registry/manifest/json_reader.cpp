// SPDX-License-Identifier: Apache-2.0
// The only file that knows RapidJSON.
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <cassert>
#include <cstring>
#include <string>

#include "registry/manifest/tree_builder.hpp"

namespace meshdns::registry {

namespace {

// RapidJSON's idea of an input: bounded by a length, where its own streams want a final NUL.
class TextStream {
 public:
  using Ch = char;
  explicit TextStream(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}
  Ch Peek() const { return at_ == end_ ? '\0' : *at_; }
  Ch Take() { return at_ == end_ ? '\0' : *at_++; }
  std::size_t Tell() const { return static_cast<std::size_t>(at_ - begin_); }
  // Output, which RapidJSON's concept asks for and parsing into a copy never uses.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) { assert(false); }
  void Flush() { assert(false); }
  std::size_t PutEnd(Ch*) { return 0; }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
};

// Counts lines up to an offset that only grows.
class LineCounter {
 public:
  LineCounter(std::string_view text, std::uint32_t first_line) : text_(text), line_(first_line) {}
  std::uint32_t at(std::size_t offset) {
    while (counted_ < offset) {
      const void* const newline = std::memchr(text_.data() + counted_, '\n', offset - counted_);
      if (newline == nullptr) {
        counted_ = offset;
        break;
      }
      counted_ = static_cast<std::size_t>(static_cast<const char*>(newline) - text_.data()) + 1;
      ++line_;
    }
    return line_;
  }

 private:
  std::string_view text_;
  std::size_t counted_ = 0;
  std::uint32_t line_;
};

// RapidJSON's handler: hands each event on with its line.
class Handler {
 public:
  Handler(const TextStream& stream, LineCounter& lines, TreeBuilder& builder)
      : stream_(stream), lines_(lines), builder_(builder) {}

  bool Null() { return plain("null"); }
  bool Bool(bool value) { return plain(value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return plain({text, size}); }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return builder_.scalar({text, size}, true, line());
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    return builder_.scalar({text, size}, true, line());
  }
  bool StartObject() { return builder_.start_mapping(line()); }
  bool EndObject(rapidjson::SizeType) { return builder_.end(); }
  bool StartArray() { return builder_.start_sequence(line()); }
  bool EndArray(rapidjson::SizeType) { return builder_.end(); }

  // Never called: numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  bool plain(std::string_view text) { return builder_.scalar(text, false, line()); }
  // The stream stands at or behind the token; no token of JSON spans lines.
  std::uint32_t line() { return lines_.at(stream_.Tell()); }

  const TextStream& stream_;
  LineCounter& lines_;
  TreeBuilder& builder_;
};

SyntaxError describe(const rapidjson::ParseResult& result, std::string_view text,
                     std::uint32_t first_line, const TreeBuilder& builder) {
  if (result.Code() == rapidjson::kParseErrorTermination) return builder.error();
  std::string message = rapidjson::GetParseError_En(result.Code());
  if (message.ends_with('.')) message.pop_back();
  return {first_line - 1 + line_at(text, result.Offset()), "not JSON: " + message};
}

// Reads one value into the builder; where it ends.
std::expected<std::size_t, SyntaxError> read_value(std::string_view text, std::uint32_t first_line,
                                                   TreeBuilder& builder) {
  constexpr unsigned flags = rapidjson::kParseIterativeFlag | rapidjson::kParseStopWhenDoneFlag |
                             rapidjson::kParseValidateEncodingFlag |
                             rapidjson::kParseNumbersAsStringsFlag;
  TextStream stream(text);
  LineCounter lines(text, first_line);
  Handler handler(stream, lines, builder);
  rapidjson::Reader reader;
  builder.start_document();
  const rapidjson::ParseResult result = reader.Parse<flags>(stream, handler);
  if (result.IsError()) return std::unexpected(describe(result, text, first_line, builder));
  return stream.Tell();
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t skip_space(std::string_view text, std::size_t from) {
  while (from < text.size() && is_space(text[from])) ++from;
  return from;
}

bool is_separator(std::string_view text, std::size_t at) {
  return text.substr(at).starts_with("---") && (at + 3 == text.size() || is_space(text[at + 3]));
}

// Skips white space and document separators.
TextPosition skip_to_document(std::string_view text, TextPosition from) {
  std::size_t at = skip_space(text, from.offset);
  while (at < text.size() && is_separator(text, at)) at = skip_space(text, at + 3);
  return {at, from.line - 1 + line_at(text.substr(from.offset), at - from.offset)};
}

bool begins_as_json(std::string_view text) {
  const std::size_t second = skip_space(text, 1);
  const char next = second < text.size() ? text[second] : '\0';
  if (text.starts_with('{')) return next == '"' || next == '}';
  return text.starts_with('[') && (next == '{' || next == '[' || next == '"' || next == ']');
}

}  // namespace

std::expected<TextPosition, SyntaxError> read_json_run(std::string_view text, TextPosition from,
                                                       TreeBuilder& builder) {
  for (;;) {
    const TextPosition next = skip_to_document(text, from);
    if (next.offset == text.size()) return next;
    const std::string_view rest = text.substr(next.offset);
    if (!begins_as_json(rest)) return from;
    const auto length = read_value(rest, next.line, builder);
    if (!length) return std::unexpected(length.error());
    builder.finish_document();
    from = {next.offset + *length, next.line - 1 + line_at(rest, *length)};
  }
}

ReadResult read_one_json(std::string_view text, TreeBuilder& builder) {
  const auto length = read_value(text, 1, builder);
  if (!length) return std::unexpected(length.error());
  const std::size_t end = skip_space(text, *length);
  if (end == text.size()) return {};
  return std::unexpected(SyntaxError{line_at(text, end), "not JSON: text after the value"});
}

}  // namespace meshdns::registry
