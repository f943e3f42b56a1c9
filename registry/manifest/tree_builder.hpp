// SPDX-License-Identifier: Apache-2.0
// Inside of the document readers: the arena and the builder that both readers feed with events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/manifest/document.hpp"

namespace meshdns::registry {

// Memory that is given out piece by piece and taken back all at once, or back to a mark.
class Arena {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
  };
  void* allocate(std::size_t bytes);  // aligned for Node
  Mark mark() const { return {current_, used_}; }
  void rewind(Mark mark);
  // Takes everything back and keeps no more than a small document needs.
  void reset();

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
  };
  void* allocate_in_next_chunk(std::size_t bytes);

  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

// Builds one document at a time from a reader's events.  An event that returns false ends the
// reading: error() has the reason.
class TreeBuilder {
 public:
  explicit TreeBuilder(const DocumentLimits& limits) : limits_(limits) {}

  // For split_lists: the receiver of the elements.  Null: they stay in the tree.
  void set_listener(const DocumentListener* listener) { listener_ = listener; }

  // The number of levels around the next documents that do not count against the bound.
  void set_envelope_levels(std::uint32_t levels) { envelope_levels_ = levels; }

  void start_document();
  // The root; null while there is none.
  const Node* root() const { return root_; }
  std::span<const DocumentProblem> problems() const { return problems_; }
  // Hands the finished document over, unless it is empty.
  void finish_document();

  bool start_mapping(std::uint32_t line) { return start(Node::Type::Mapping, line); }
  bool start_sequence(std::uint32_t line) { return start(Node::Type::Sequence, line); }
  bool end();
  bool scalar(std::string_view text, bool quoted, std::uint32_t line);
  // The next value started is known by this name to aliases.
  void anchor_next(std::string_view name) { next_anchor_ = name; }
  bool alias(std::string_view name, std::uint32_t line);
  void problem(std::uint32_t line, std::string message);

  const SyntaxError& error() const { return error_; }

 private:
  struct Frame {
    Node* node = nullptr;
    Node* last = nullptr;
    std::size_t index = 0;  // of the child that is being read
    std::string_view key;   // under which the next child goes
    std::uint32_t key_line = 0;
    bool has_key = false;
    bool is_merge_key = false;        // of the next child: "<<"
    std::vector<const Node*> merged;  // the values of merge keys
    std::string anchor;
    // The state to return to if this is an element that is handed over by itself.
    Arena::Mark before;
    std::size_t values_before = 0;
    std::size_t problems_before = 0;
    std::size_t anchors_before = 0;
  };
  struct Anchor {
    std::string name;
    const Node* node = nullptr;
  };
  struct Extent {
    std::size_t values = 0;
    std::size_t depth = 0;
  };

  bool fail_at(std::uint32_t line, std::string message);
  bool start(Node::Type type, std::uint32_t line);
  Node* make_node(Node::Type type, std::uint32_t line);
  std::string_view keep(std::string_view text);
  bool expects_key() const;
  bool take_key(std::string_view text, bool quoted, std::uint32_t line);
  void name_child(Node& node);
  bool attach(Node* node);
  bool register_anchor(std::string name, const Node* node);
  Extent extent_of(const Node& node) const;
  void take_merged(Node& value);
  bool merge(Frame& frame);
  bool add_absent(Frame& frame, const Node& source);
  void link(Frame& frame, Node* node);
  void check_unique_keys(const Node& mapping);
  bool is_list_element() const;
  bool hand_over_element(const Frame& frame);
  std::string path(std::size_t frames) const;

  DocumentLimits limits_;
  const DocumentListener* listener_ = nullptr;
  std::uint32_t envelope_levels_ = 0;
  Arena arena_;
  std::vector<Frame> frames_;
  std::vector<Anchor> anchors_;
  std::vector<DocumentProblem> problems_;
  std::vector<const Node*> keys_scratch_;
  TextViewSet merged_keys_;
  std::string next_anchor_;
  const Node* root_ = nullptr;
  std::size_t values_ = 0;
  std::size_t alias_values_ = 0;
  SyntaxError error_;
};

// The line of the octet at `offset`; of those behind the text, its last line.
std::uint32_t line_at(std::string_view text, std::size_t offset);

// A place in a text, for readers that take turns.
struct TextPosition {
  std::size_t offset = 0;
  std::uint32_t line = 1;
};

// Reads JSON values as long as there are any; where something else begins, or the end.
std::expected<TextPosition, SyntaxError> read_json_run(std::string_view text, TextPosition from,
                                                       TreeBuilder& builder);
ReadResult read_yaml_rest(std::string_view text, TextPosition from, TreeBuilder& builder);
ReadResult read_handwritten_yaml(std::string_view text, TreeBuilder& builder);
ReadResult read_one_json(std::string_view text, TreeBuilder& builder);

}  // namespace meshdns::registry
