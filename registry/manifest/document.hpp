// SPDX-License-Identifier: Apache-2.0
// YAML and JSON text as one kind of tree, with the line of every value, so that whoever reads a
// manifest or the configuration can say where a fault is.
//
// Both readers are driven by events (libyaml, RapidJSON) and build the tree in an arena that is
// reused from document to document: a file of 100,000 documents needs the memory of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

namespace meshdns::registry {

class TreeBuilder;

// One value of a document.  Immutable; lives as long as its document (see the readers).
class Node {
 public:
  // Children of a sequence, or the values of a mapping (each knows its key).  Forward range.
  class Iterator {
   public:
    using value_type = Node;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(const Node* node) : node_(node) {}
    const Node& operator*() const { return *node_; }
    const Node* operator->() const { return node_; }
    Iterator& operator++() {
      node_ = node_->next_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(Iterator, Iterator) = default;

   private:
    const Node* node_ = nullptr;
  };

  bool is_scalar() const { return type_ == Type::Scalar; }
  bool is_sequence() const { return type_ == Type::Sequence; }
  bool is_mapping() const { return type_ == Type::Mapping; }

  // 1-based: of its key in a mapping, of its own start elsewhere.
  std::uint32_t line() const { return line_; }
  // The key under which a mapping holds this value; empty for elements and roots.
  std::string_view key() const { return {key_, key_size_}; }

  // The scalar's text, escapes resolved (it may hold NUL octets); empty for collections.
  std::string_view text() const {
    return is_scalar() ? std::string_view(text_, size_) : std::string_view();
  }
  // As text(), but empty for null: Kubernetes takes it for a value that is absent.
  std::string_view value() const { return is_null() ? std::string_view() : text(); }
  // Written as a string: quoted or a block in YAML, a string in JSON.
  bool is_quoted() const { return quoted_; }
  // Plain scalars by YAML's core schema: null, ~, nothing; true, false; numbers.
  bool is_null() const;
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_integer() const;  // decimal, 0x, 0o; nullopt when out of range
  // The text when it is a string: quoted, or plain and neither null, boolean nor number.
  std::optional<std::string_view> as_string() const;
  // "a mapping", "a list", "a string", "a number", "a boolean", "null": for messages.
  std::string_view describe() const;

  // Number of children; 0 for scalars.
  std::size_t size() const { return is_scalar() ? 0 : size_; }
  Iterator begin() const { return Iterator(is_scalar() ? nullptr : first_); }
  Iterator end() const { return Iterator(); }
  // The value of `key` in a mapping; null when there is none or this is no mapping.
  const Node* find(std::string_view key) const;

 private:
  friend class TreeBuilder;
  enum class Type : std::uint8_t { Scalar, Sequence, Mapping };

  const char* key_ = nullptr;
  union {
    const char* text_;             // NOLINT(readability-identifier-naming): these are
    const Node* first_ = nullptr;  // NOLINT(readability-identifier-naming): private
  };
  const Node* next_ = nullptr;
  std::uint32_t key_size_ = 0;
  std::uint32_t size_ = 0;  // octets of text, or number of children
  std::uint32_t line_ = 0;
  Type type_ = Type::Scalar;
  bool quoted_ = false;
};

// A fault that spoils one document and lets the reader go on with the next: a duplicate key, say.
struct DocumentProblem {
  std::uint32_t line = 0;
  std::string field;  // "spec.hosts[1]"
  std::string message;
};

// The text cannot be read from here on.
struct SyntaxError {
  std::uint32_t line = 0;
  std::string message;
};

struct DocumentLimits {
  std::size_t max_bytes = std::size_t{64} << 20;
  std::uint32_t max_depth = 64;
  std::size_t max_values = 4'000'000;  // held at the same time, that is, per document
  std::size_t max_alias_values = 256;  // that one YAML alias may stand for
  // Hand over the elements of `items` of a List (and of a list at the top) one at a time as soon as
  // each is read, when they name their own kind; they are then absent from the document itself.
  bool split_lists = false;
  // Once this is requested, the reading ends with an error at the next collection.
  std::stop_token stop = {};
};

// The argument of the listener; valid only during the call.
struct Document {
  const Node& root;
  std::span<const DocumentProblem> problems;
};
using DocumentListener = std::function<void(const Document&)>;

using ReadResult = std::expected<void, SyntaxError>;

// Every document of YAML text (of which JSON is nearly a part) in order; those that are empty are
// left out.  Documents before a syntax error have been handed over when it is returned.  UTF-8
// only. Anchors and aliases work within `max_alias_values`, and so do merge keys (<<: *base); tags
// of one's own are problems, and keys that are not scalars end the reading.  Read by yaml-cpp, for
// what people write by hand and is small; read_documents is for manifests.
ReadResult read_handwritten_documents(std::string_view text, const DocumentLimits& limits,
                                      const DocumentListener& listener);

// YAML as above, or JSON: text is JSON when its first value begins as a JSON object or list does.
// Its YAML is read by libyaml, which takes a seventh of yaml-cpp's time; both give the same tree.
ReadResult read_documents(std::string_view text, const DocumentLimits& limits,
                          const DocumentListener& listener);

// Parses JSON values one by one into memory that it keeps, for callers with many small texts (the
// events of a watch).  Not thread-safe; one per thread.
class JsonParser {
 public:
  explicit JsonParser(DocumentLimits limits = {});
  ~JsonParser();
  JsonParser(JsonParser&&) noexcept;

  // The one value that `text` holds.  The tree lives until the next call.  An envelope, such as the
  // event that an object comes in, takes levels that max_depth does not mean.
  std::expected<const Node*, SyntaxError> parse(std::string_view text,
                                                std::uint32_t envelope_levels = 0);
  // Errors in parts of the latest tree (duplicate keys).
  std::span<const DocumentProblem> problems() const;

 private:
  std::unique_ptr<TreeBuilder> builder_;
  DocumentLimits limits_;
};

}  // namespace meshdns::registry
