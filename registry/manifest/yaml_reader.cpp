// SPDX-License-Identifier: Apache-2.0
// The only file that knows libyaml, which reads manifests: there may be 100,000 of them.  yaml-cpp
// (handwritten_yaml_reader.cpp) takes five to seven times as long for them, and it recurses.
#include <yaml.h>

#include <algorithm>
#include <memory>
#include <string>

#include "registry/manifest/tree_builder.hpp"
#include "registry/manifest/yaml_dialect.hpp"

namespace meshdns::registry {

namespace {

struct ParserDeleter {
  void operator()(yaml_parser_t* parser) const {
    yaml_parser_delete(parser);
    delete parser;
  }
};
using ParserPtr = std::unique_ptr<yaml_parser_t, ParserDeleter>;

// An event that is freed at the end of its turn.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&event_); }
  bool next(yaml_parser_t* parser) { return yaml_parser_parse(parser, &event_) != 0; }
  const yaml_event_t& get() const { return event_; }

 private:
  yaml_event_t event_{};
};

std::string_view as_text(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

template <typename Start>
YamlEvents::Properties properties_of(const Start& event) {
  return {as_text(event.tag), as_text(event.anchor)};
}

class YamlReader {
 public:
  YamlReader(std::string_view text, std::uint32_t first_line, TreeBuilder& builder)
      : events_(text, builder), text_(events_.text()), first_line_(first_line), builder_(builder) {}

  ReadResult run() {
    auto storage = std::make_unique<yaml_parser_t>();
    if (yaml_parser_initialize(storage.get()) == 0)
      return std::unexpected(SyntaxError{first_line_, "out of memory"});
    const ParserPtr parser(storage.release());
    yaml_parser_set_encoding(parser.get(), YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser.get(), reinterpret_cast<const unsigned char*>(text_.data()),
                                 text_.size());
    for (;;) {
      Event event;
      if (!event.next(parser.get())) return std::unexpected(describe_error(*parser));
      if (event.get().type == YAML_STREAM_END_EVENT) return {};
      if (!feed(event.get())) return std::unexpected(builder_.error());
    }
  }

 private:
  std::uint32_t line_of(const yaml_mark_t& mark) const {
    return first_line_ + static_cast<std::uint32_t>(mark.line);
  }

  std::uint32_t line_of_offset(std::size_t offset) const {
    return first_line_ - 1 + line_at(text_, offset);
  }

  SyntaxError describe_error(const yaml_parser_t& parser) const {
    std::string message = parser.problem == nullptr ? "out of memory" : parser.problem;
    if (parser.error == YAML_READER_ERROR) {
      // The reader knows only the offset.
      const bool is_utf8 = message.starts_with("control characters");
      return {line_of_offset(parser.problem_offset),
              is_utf8 ? message : "not UTF-8 text: " + message};
    }
    // If the text ends too early, the mark is behind its last line.
    const std::uint32_t line = std::min(line_of(parser.problem_mark), line_of_offset(text_.size()));
    if (is_indented_with_tab(text_, line - first_line_ + 1))
      return {line, std::string(kTabMessage)};
    if (parser.context != nullptr)
      message = std::string(parser.context) + " (from line " +
                std::to_string(line_of(parser.context_mark)) + "): " + message;
    return {line, message};
  }

  bool feed(const yaml_event_t& event) {
    const std::uint32_t line = line_of(event.start_mark);
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        builder_.start_document();
        return true;
      case YAML_DOCUMENT_END_EVENT:
        builder_.finish_document();
        return true;
      case YAML_MAPPING_START_EVENT:
        return events_.start_mapping(properties_of(event.data.mapping_start), line);
      case YAML_SEQUENCE_START_EVENT:
        return events_.start_sequence(properties_of(event.data.sequence_start), line);
      case YAML_MAPPING_END_EVENT:
      case YAML_SEQUENCE_END_EVENT:
        return builder_.end();
      case YAML_SCALAR_EVENT:
        return feed_scalar(event, line);
      case YAML_ALIAS_EVENT:
        return builder_.alias(as_text(event.data.alias.anchor), line);
      default:
        return true;
    }
  }

  bool feed_scalar(const yaml_event_t& event, std::uint32_t line) {
    const auto& scalar = event.data.scalar;
    const std::string_view text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    return events_.scalar(text, scalar.style != YAML_PLAIN_SCALAR_STYLE, properties_of(scalar),
                          line);
  }

  YamlEvents events_;
  std::string_view text_;
  std::uint32_t first_line_;
  TreeBuilder& builder_;
};

}  // namespace

ReadResult read_yaml_rest(std::string_view text, TextPosition from, TreeBuilder& builder) {
  return YamlReader(text.substr(from.offset), from.line, builder).run();
}

}  // namespace meshdns::registry
