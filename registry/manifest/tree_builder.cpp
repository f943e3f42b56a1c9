// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/tree_builder.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "registry/base/printable.hpp"

namespace meshdns::registry {

namespace {

constexpr std::size_t kFirstChunk = std::size_t{64} << 10;
constexpr std::size_t kLargestChunk = std::size_t{1} << 20;
constexpr std::size_t kKeptChunks = 4;
constexpr std::size_t kMaxAnchors = 1000;
constexpr std::size_t kMaxProblems = 1000;
// Up to here comparing each with each is cheaper than sorting.
constexpr std::size_t kSmallMapping = 12;

}  // namespace

std::uint32_t line_at(std::string_view text, std::size_t offset) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto newlines = std::ranges::count(text.substr(0, offset), '\n');
  return static_cast<std::uint32_t>(newlines) + 1;
}

void* Arena::allocate(std::size_t bytes) {
  bytes = (bytes + alignof(Node) - 1) & ~(alignof(Node) - 1);
  if (chunks_.empty() || chunks_[current_].size - used_ < bytes)
    return allocate_in_next_chunk(bytes);
  void* const place = chunks_[current_].memory.get() + used_;
  used_ += bytes;
  return place;
}

void* Arena::allocate_in_next_chunk(std::size_t bytes) {
  std::size_t next = chunks_.empty() ? 0 : current_ + 1;
  while (next < chunks_.size() && chunks_[next].size < bytes) ++next;
  if (next == chunks_.size()) {
    const std::size_t grown = chunks_.empty() ? kFirstChunk : chunks_.back().size * 2;
    const std::size_t size = std::max(bytes, std::min(grown, kLargestChunk));
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }
  current_ = next;
  used_ = bytes;
  return chunks_[current_].memory.get();
}

void Arena::rewind(Mark mark) {
  current_ = mark.chunk;
  used_ = mark.used;
}

void Arena::reset() {
  if (chunks_.size() > kKeptChunks) chunks_.resize(kKeptChunks);
  rewind({});
}

void TreeBuilder::start_document() {
  arena_.reset();
  frames_.clear();
  anchors_.clear();
  problems_.clear();
  next_anchor_.clear();
  root_ = nullptr;
  values_ = 0;
  alias_values_ = 0;
}

void TreeBuilder::finish_document() {
  if (root_ == nullptr || (root_->is_null() && problems_.empty())) return;
  if (listener_ != nullptr) (*listener_)({*root_, problems_});
}

bool TreeBuilder::fail_at(std::uint32_t line, std::string message) {
  error_ = {line, std::move(message)};
  return false;
}

void TreeBuilder::problem(std::uint32_t line, std::string message) {
  problems_.push_back({line, path(frames_.size()), std::move(message)});
}

bool TreeBuilder::start(Node::Type type, std::uint32_t line) {
  if (expects_key()) return fail_at(line, "a key of a mapping must be plain text");
  if (frames_.size() >= limits_.max_depth + envelope_levels_)
    return fail_at(line, "nested more than " + std::to_string(limits_.max_depth) + " levels deep");
  if (limits_.stop.stop_requested()) return fail_at(line, "the reading was stopped");
  Frame frame;
  frame.before = arena_.mark();
  frame.values_before = values_;
  frame.problems_before = problems_.size();
  frame.anchors_before = anchors_.size();
  frame.anchor = std::exchange(next_anchor_, {});
  frame.node = make_node(type, line);
  if (frame.node == nullptr) return false;
  name_child(*frame.node);
  frames_.push_back(std::move(frame));
  return true;
}

bool TreeBuilder::end() {
  assert(!frames_.empty());
  if (frames_.back().node->is_mapping()) check_unique_keys(*frames_.back().node);
  if (!merge(frames_.back())) return false;
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  if (problems_.size() > kMaxProblems)
    return fail_at(frame.node->line(), "the document has too many faults");
  if (hand_over_element(frame)) return true;
  if (!frame.anchor.empty() && !register_anchor(std::move(frame.anchor), frame.node)) return false;
  return attach(frame.node);
}

bool TreeBuilder::scalar(std::string_view text, bool quoted, std::uint32_t line) {
  if (expects_key()) return take_key(text, quoted, line);
  Node* const node = make_node(Node::Type::Scalar, line);
  if (node == nullptr) return false;
  const std::string_view kept = keep(text);
  node->text_ = kept.data();
  node->size_ = static_cast<std::uint32_t>(kept.size());
  node->quoted_ = quoted;
  name_child(*node);
  if (!next_anchor_.empty() && !register_anchor(std::exchange(next_anchor_, {}), node))
    return false;
  return attach(node);
}

bool TreeBuilder::alias(std::string_view name, std::uint32_t line) {
  const auto anchor = std::find_if(anchors_.rbegin(), anchors_.rend(),
                                   [&](const Anchor& a) { return a.name == name; });
  if (anchor == anchors_.rend()) {
    problem(line, "alias " + in_quotes(name) + " has no anchor before it");
    return scalar("", false, line);
  }
  const Node& target = *anchor->node;
  const Extent extent = extent_of(target);
  if (extent.values > limits_.max_alias_values) {
    problem(line, "alias " + in_quotes(name) + " expands to more than " +
                      std::to_string(limits_.max_alias_values) + " values; write them out");
    return scalar("", false, line);
  }
  if (frames_.size() + extent.depth > limits_.max_depth)
    return fail_at(line, "alias " + in_quotes(name) + " nests more than " +
                             std::to_string(limits_.max_depth) + " levels deep");
  alias_values_ += extent.values;
  if (alias_values_ > limits_.max_values)
    return fail_at(line, "the document's aliases stand for too many values");
  if (target.is_scalar()) return scalar(target.text(), target.is_quoted(), line);
  if (expects_key()) return fail_at(line, "a key of a mapping must be plain text");
  Node* const node = make_node(target.type_, line);
  if (node == nullptr) return false;
  node->first_ = target.first_;
  node->size_ = target.size_;
  name_child(*node);
  return attach(node);
}

Node* TreeBuilder::make_node(Node::Type type, std::uint32_t line) {
  if (++values_ > limits_.max_values) {
    fail_at(line, "the document has more than " + std::to_string(limits_.max_values) +
                      " values; split it into several");
    return nullptr;
  }
  Node* const node = new (arena_.allocate(sizeof(Node))) Node;
  node->type_ = type;
  node->line_ = line;
  return node;
}

std::string_view TreeBuilder::keep(std::string_view text) {
  if (text.empty()) return "";
  char* const copy = static_cast<char*>(arena_.allocate(text.size()));
  std::memcpy(copy, text.data(), text.size());
  return {copy, text.size()};
}

bool TreeBuilder::expects_key() const {
  return !frames_.empty() && frames_.back().node->is_mapping() && !frames_.back().has_key;
}

bool TreeBuilder::take_key(std::string_view text, bool quoted, std::uint32_t line) {
  Frame& frame = frames_.back();
  frame.key = keep(text);
  frame.key_line = line;
  frame.has_key = true;
  next_anchor_.clear();
  frame.is_merge_key = text == "<<" && !quoted;
  return true;
}

void TreeBuilder::name_child(Node& node) {
  if (frames_.empty() || !frames_.back().has_key) return;
  const Frame& frame = frames_.back();
  node.key_ = frame.key.data();
  node.key_size_ = static_cast<std::uint32_t>(frame.key.size());
  node.line_ = frame.key_line;
}

bool TreeBuilder::attach(Node* node) {
  if (frames_.empty()) {
    root_ = node;
    return true;
  }
  Frame& frame = frames_.back();
  if (frame.is_merge_key)
    take_merged(*node);
  else
    link(frame, node);
  ++frame.index;
  frame.has_key = false;
  frame.is_merge_key = false;
  return true;
}

void TreeBuilder::link(Frame& frame, Node* node) {
  if (frame.last == nullptr)
    frame.node->first_ = node;
  else
    frame.last->next_ = node;
  frame.last = node;
  ++frame.node->size_;
}

// The value of a merge key: a mapping, or a list of mappings.
void TreeBuilder::take_merged(Node& value) {
  std::vector<const Node*>& merged = frames_.back().merged;
  if (value.is_mapping()) {
    merged.push_back(&value);
    return;
  }
  const auto is_mapping = [](const Node& element) { return element.is_mapping(); };
  if (!value.is_sequence() || !std::all_of(value.begin(), value.end(), is_mapping))
    return problem(value.line(), "a merge key takes a mapping, or a list of mappings");
  for (const Node& element : value) merged.push_back(&element);
}

// Adds what the values of merge keys have and the mapping lacks.  Earlier values come before later
// ones, and keys of the mapping itself before all.
bool TreeBuilder::merge(Frame& frame) {
  if (frame.merged.empty()) return true;
  merged_keys_.clear();
  for (const Node& value : *frame.node) merged_keys_.insert(value.key());
  return std::ranges::all_of(frame.merged,
                             [&](const Node* source) { return add_absent(frame, *source); });
}

// The copies count as values of the document.
bool TreeBuilder::add_absent(Frame& frame, const Node& source) {
  for (const Node& value : source) {
    if (!merged_keys_.insert(value.key()).second) continue;
    Node* const copy = make_node(value.type_, value.line());
    if (copy == nullptr) return false;
    *copy = value;
    copy->next_ = nullptr;
    link(frame, copy);
  }
  return true;
}

bool TreeBuilder::register_anchor(std::string name, const Node* node) {
  if (anchors_.size() == kMaxAnchors)
    return fail_at(node->line(), "more than " + std::to_string(kMaxAnchors) + " anchors");
  anchors_.push_back({std::move(name), node});
  return true;
}

// Counting stops soon after max_alias_values, and with it the recursion: every level is a value.
TreeBuilder::Extent TreeBuilder::extent_of(const Node& node) const {
  Extent extent{1, 0};
  if (node.is_scalar()) return extent;
  for (const Node& child : node) {
    const Extent inner = extent_of(child);
    extent.values += inner.values;
    extent.depth = std::max(extent.depth, inner.depth);
    if (extent.values > limits_.max_alias_values) break;
  }
  ++extent.depth;
  return extent;
}

void TreeBuilder::check_unique_keys(const Node& mapping) {
  const auto report = [this](const Node& first, const Node& second) {
    DocumentProblem duplicate{second.line(), path(frames_.size() - 1), {}};
    if (!duplicate.field.empty()) duplicate.field += '.';
    duplicate.field += printable(second.key());
    duplicate.message = "the key is given twice, first on line " + std::to_string(first.line());
    problems_.push_back(std::move(duplicate));
  };
  if (mapping.size() <= kSmallMapping) {
    for (auto first = mapping.begin(); first != mapping.end(); ++first)
      for (auto second = std::next(first); second != mapping.end(); ++second)
        if (first->key() == second->key()) return report(*first, *second);
    return;
  }
  keys_scratch_.clear();
  for (const Node& value : mapping) keys_scratch_.push_back(&value);
  std::ranges::stable_sort(keys_scratch_, {}, &Node::key);
  const auto same = std::ranges::adjacent_find(keys_scratch_, {}, &Node::key);
  if (same != keys_scratch_.end()) report(**same, **std::next(same));
}

// An element of a list at the top, or of a top-level `items`.
bool TreeBuilder::is_list_element() const {
  if (frames_.size() == 1) return frames_[0].node->is_sequence();
  return frames_.size() == 2 && frames_[0].node->is_mapping() && frames_[0].key == "items" &&
         frames_[1].node->is_sequence();
}

bool TreeBuilder::hand_over_element(const Frame& frame) {
  if (!limits_.split_lists || listener_ == nullptr || !is_list_element()) return false;
  if (frame.node->find("kind") == nullptr || frame.node->find("apiVersion") == nullptr)
    return false;
  const std::string prefix = path(frames_.size()) + ".";
  const std::span own(problems_.begin() + static_cast<std::ptrdiff_t>(frame.problems_before),
                      problems_.end());
  for (DocumentProblem& problem : own)
    if (problem.field.starts_with(prefix)) problem.field.erase(0, prefix.size());
  (*listener_)({*frame.node, own});
  // The index does not move: fields count the elements that stay in the tree.
  problems_.resize(frame.problems_before);
  // Keep values that have an anchor: an alias may come after the element.
  if (anchors_.size() == frame.anchors_before && frame.anchor.empty()) {
    arena_.rewind(frame.before);
    values_ = frame.values_before;
  }
  return true;
}

std::string TreeBuilder::path(std::size_t frames) const {
  std::string out;
  for (std::size_t i = 0; i < frames; ++i) {
    const Frame& frame = frames_[i];
    if (frame.node->is_sequence()) {
      out += '[' + std::to_string(frame.index) + ']';
    } else if (frame.has_key) {
      if (!out.empty()) out += '.';
      out += printable(frame.key);
    }
  }
  return out;
}

}  // namespace meshdns::registry
