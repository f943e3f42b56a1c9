// SPDX-License-Identifier: Apache-2.0
// Cuts the objects out of a JSON text that arrives in pieces: the elements of `items` of a list, or
// the events of a watch.  A list of 100,000 objects so needs the memory of one.
//
// Only strings and brackets are followed here; whether a piece is JSON is for the parser to say
// that gets it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "registry/manifest/document.hpp"

namespace meshdns::registry::kubernetes {

// The scalar `key` of a mapping; empty where there is none, or null, or no mapping.  It lives as
// long as the document.
inline std::string_view text_of(const Node* object, std::string_view key) {
  const Node* const value = object == nullptr ? nullptr : object->find(key);
  return value == nullptr || value->is_null() ? std::string_view() : value->text();
}

// The identity of an object, for messages about objects that cannot be read and for deletions.
// Views into the text or the tree that they were taken from.
struct ObjectRef {
  std::string_view ns;
  std::string_view name;  // empty: not to be found
};

struct ObjectOutline {
  std::string_view event;  // "ADDED"; of an event only
  ObjectRef object;
  std::string_view resource_version;
};

ObjectRef ref_of(const Node& object);

// Outlines text that is no JSON, nests too deep, or is the beginning of a text that is too long:
// its metadata as far as strings and brackets can be followed.  Any text is safe; one pass, nothing
// recurses.  Escapes stay as they are: no name that the API knows has any.
ObjectOutline outline_of_object(std::string_view text);
// Outlines an event of a watch, which holds its object.
ObjectOutline outline_of_event(std::string_view text);

// The messages of the API beside objects: meta/v1 Status and ListMeta.
struct ApiStatus {
  std::int64_t code = 0;  // as of HTTP
  std::string reason;     // "Expired", "Forbidden"
  std::string message;
  std::optional<std::chrono::seconds> retry_after;

  // The version that was asked for is no longer there (or the continue token): list anew.
  bool is_gone() const { return code == 410 || reason == "Expired" || reason == "Gone"; }
};

// Reads a Status object; members that it lacks are empty.
ApiStatus read_status(const Node& object);

struct ListMeta {
  std::string kind;
  std::string resource_version;
  std::string continue_token;
};
ListMeta read_list_meta(const Node& list);

// metadata.resourceVersion
std::string_view resource_version_of(const Node& object);
// metadata.annotations[name]; empty when absent
std::string_view annotation_of(const Node& object, std::string_view name);

// Versions are numbers that grow (KEP-5504); nullopt for one that is not.
std::optional<std::uint64_t> version_number(std::string_view resource_version);

struct CutterLimits {
  std::size_t object_bytes = std::size_t{4} << 20;  // etcd's own limit is 1.5 MiB
  std::size_t envelope_bytes = std::size_t{64} << 10;
  // A longer object, or so much space between objects, is no API server's: the text is given up.
  std::size_t hopeless_bytes = std::size_t{64} << 20;
};

class JsonCutter {
 public:
  enum class Shape : std::uint8_t {
    Sequence,  // objects one after the other
    List,      // one object, of which the elements of `items` are cut
  };
  // The view is good for the call.  Of an object that is longer than the limit, which is then not
  // whole, it is the beginning.
  using Listener = std::function<void(std::string_view object, bool is_whole)>;

  explicit JsonCutter(Shape shape, CutterLimits limits = {}) : limits_(limits), shape_(shape) {}

  // false: the text is not what it should be; nothing is read after that, and why() says why.
  bool feed(std::string_view bytes, const Listener& listener);
  const std::string& why() const { return why_; }

  // The text may end here: nothing of an object, or of the list, is open.
  bool is_complete() const;
  // The text of a List without the objects that were cut out: `items` is empty.
  const std::string& envelope() const { return envelope_; }

 private:
  enum class Where : std::uint8_t { Outside, Envelope, Items, Object, Done, Broken };

  bool cannot_be_inside(char c) const;
  bool is_end_of_object(char c);
  void read_envelope(char c);
  bool read_between(char c);
  void take(std::string_view part);
  void finish_object(std::string_view last_part, const Listener& listener);
  void give_up(std::string why);

  CutterLimits limits_;
  Shape shape_;
  Where where_ = Where::Outside;
  bool in_string_ = false;
  bool escaped_ = false;
  std::uint32_t depth_ = 0;  // of brackets within the object, or within the envelope
  std::string object_;       // what is there of an object that came in several pieces
  bool is_oversized_ = false;
  std::string envelope_;
  std::size_t unbroken_bytes_ = 0;  // of the object, or of the space since the last one
  std::string why_;
  std::string key_;  // the latest string of the envelope's own level
};

}  // namespace meshdns::registry::kubernetes
