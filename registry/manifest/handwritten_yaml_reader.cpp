// SPDX-License-Identifier: Apache-2.0
// The only file that knows yaml-cpp.  It reads what people write by hand: the configuration and
// kubeconfig files, where a good message matters and time does not.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/node/node.h>  // clang-tidy takes our Node for the one that parser.h declares
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/base/printable.hpp"
#include "registry/manifest/tree_builder.hpp"
#include "registry/manifest/yaml_dialect.hpp"

namespace meshdns::registry {

namespace {

constexpr std::size_t kLongestMessage = 200;

// Leaves yaml-cpp's parser when the builder takes no more events.
struct Stopped {};

std::uint32_t line_of(const YAML::Mark& mark) {
  return mark.line < 0 ? 1 : static_cast<std::uint32_t>(mark.line) + 1;
}

// The numbers of the lines that begin with a mark of a document's start or end, in order.
std::vector<std::uint32_t> separator_lines(std::string_view text) {
  std::vector<std::uint32_t> lines;
  std::uint32_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    if (text.substr(at).starts_with("---") || text.substr(at).starts_with("..."))
      lines.push_back(number);
    const std::size_t end = text.find('\n', at);
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  return lines;
}

// Feeds the builder.  Its functions throw Stopped when the builder takes no more.
class TreeEvents : public YAML::EventHandler {
 public:
  TreeEvents(YamlEvents& events, TreeBuilder& builder)
      : events_(events), separators_(separator_lines(events.text())), builder_(builder) {}

  // yaml-cpp begins a document wherever the one before it ends, at a wrong indentation, too.
  void OnDocumentStart(const YAML::Mark& mark) override {
    const auto separator = std::ranges::upper_bound(separators_, latest_line_);
    const std::uint32_t line = line_of(mark);
    if (latest_line_ > 0 && (separator == separators_.end() || *separator > line))
      throw YAML::ParserException(mark, "expected the end of the document");
    anchor_names_.clear();
    builder_.start_document();
  }
  void OnDocumentEnd() override { builder_.finish_document(); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    go_on(events_.scalar("null", false, properties("", anchor), note_line(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    go_on(events_.scalar(value, false, properties(tag, anchor), note_line(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    go_on(builder_.alias(anchor_names_[anchor], note_line(mark)));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    go_on(events_.start_sequence(properties(tag, anchor), note_line(mark)));
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    go_on(events_.start_mapping(properties(tag, anchor), note_line(mark)));
  }
  void OnSequenceEnd() override { go_on(builder_.end()); }
  void OnMapEnd() override { go_on(builder_.end()); }

  // Comes before the event of the node that has the anchor.
  void OnAnchor(const YAML::Mark&, const std::string& name) override { next_name_ = name; }

 private:
  static void go_on(bool taken) {
    if (!taken) throw Stopped{};
  }

  std::uint32_t note_line(const YAML::Mark& mark) {
    latest_line_ = std::max(latest_line_, line_of(mark));
    return line_of(mark);
  }

  YamlEvents::Properties properties(std::string_view tag, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return {tag, {}};
    return {tag, anchor_names_[anchor] = next_name_};
  }

  YamlEvents& events_;
  std::vector<std::uint32_t> separators_;
  std::uint32_t latest_line_ = 0;  // of the values so far
  TreeBuilder& builder_;
  std::string next_name_;
  std::unordered_map<YAML::anchor_t, std::string> anchor_names_;
};

}  // namespace

ReadResult read_handwritten_yaml(std::string_view text, TreeBuilder& builder) {
  // yaml-cpp replaces what is not UTF-8; a file that is damaged has to be refused.
  if (const auto bad = find_unreadable(text))
    return std::unexpected(SyntaxError{line_at(text, bad->offset), std::string(bad->reason)});
  // yaml-cpp takes the end of the text for a closing quote, but not the end of the document.
  YamlEvents events(text, builder);
  std::istringstream stream(std::string(events.text()) +
                            (text.ends_with('\n') ? "...\n" : "\n...\n"));
  TreeEvents handler(events, builder);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
    return {};
  } catch (const Stopped&) {
    return std::unexpected(builder.error());
  } catch (const YAML::Exception& error) {
    // If the text ends too early, the mark is behind its last line.
    const std::uint32_t line = std::min(line_of(error.mark), line_at(text, text.size()));
    if (is_indented_with_tab(text, line))
      return std::unexpected(SyntaxError{line, std::string(kTabMessage)});
    // Some releases of yaml-cpp quote a name of the text.
    return std::unexpected(SyntaxError{line, printable(error.msg, kLongestMessage)});
  }
}

}  // namespace meshdns::registry
