// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/json_cutter.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

// Names have 253 octets at most.
constexpr std::size_t kLongestValue = 512;

// Behind the closing quote of the string whose text begins at `from`; npos: it has none.
std::size_t end_of_string(std::string_view text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') ++i;
  }
  return std::string_view::npos;
}

bool is_followed_by_colon(std::string_view text, std::size_t from) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", from);
  return next != std::string_view::npos && text[next] == ':';
}

class Scanner {
 public:
  explicit Scanner(bool is_event) : metadata_level_(is_event ? 2 : 1) {}

  ObjectOutline scan(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '{' || c == '[') open();
      if ((c == '}' || c == ']') && depth_ > 0) --depth_;
      if (c != '"') continue;
      const std::size_t end = end_of_string(text, i + 1);
      if (end == std::string_view::npos) break;
      take(text.substr(i + 1, end - i - 2).substr(0, kLongestValue),
           is_followed_by_colon(text, end));
      i = end - 1;
    }
    return outline_;
  }

 private:
  void open() {
    ++depth_;
    if (depth_ < keys_.size()) keys_[depth_] = {};
  }

  void take(std::string_view string, bool is_key) {
    if (depth_ >= keys_.size()) return;
    if (is_key)
      keys_[depth_] = string;
    else
      take_value(keys_[depth_], string);
  }

  void take_value(std::string_view key, std::string_view value) {
    const bool is_event = metadata_level_ == 2;
    if (is_event && depth_ == 1 && key == "type") outline_.event = value;
    const bool is_in_object = !is_event || keys_[1] == "object";
    if (!is_in_object || depth_ != metadata_level_ + 1 || keys_[metadata_level_] != "metadata")
      return;
    if (key == "namespace") outline_.object.ns = value;
    if (key == "name") outline_.object.name = value;
    if (key == "resourceVersion") outline_.resource_version = value;
  }

  std::size_t metadata_level_;
  std::size_t depth_ = 0;
  std::array<std::string_view, 4> keys_;  // the latest of each level
  ObjectOutline outline_;
};

}  // namespace

ObjectRef ref_of(const Node& object) {
  const Node* const metadata = object.find("metadata");
  return {text_of(metadata, "namespace"), text_of(metadata, "name")};
}

ObjectOutline outline_of_object(std::string_view text) { return Scanner(false).scan(text); }

ObjectOutline outline_of_event(std::string_view text) { return Scanner(true).scan(text); }

namespace {

std::optional<std::int64_t> number_of(const Node* object, std::string_view key) {
  const Node* const value = object == nullptr ? nullptr : object->find(key);
  return value == nullptr ? std::nullopt : value->as_integer();
}

}  // namespace

ApiStatus read_status(const Node& object) {
  ApiStatus status;
  status.code = number_of(&object, "code").value_or(0);
  status.reason = text_of(&object, "reason");
  status.message = text_of(&object, "message");
  if (const auto seconds = number_of(object.find("details"), "retryAfterSeconds"))
    status.retry_after = std::chrono::seconds(std::clamp<std::int64_t>(*seconds, 0, 3'600));
  return status;
}

ListMeta read_list_meta(const Node& list) {
  const Node* const metadata = list.find("metadata");
  return {std::string(text_of(&list, "kind")), std::string(text_of(metadata, "resourceVersion")),
          std::string(text_of(metadata, "continue"))};
}

std::string_view resource_version_of(const Node& object) {
  return text_of(object.find("metadata"), "resourceVersion");
}

std::string_view annotation_of(const Node& object, std::string_view name) {
  const Node* const metadata = object.find("metadata");
  return text_of(metadata == nullptr ? nullptr : metadata->find("annotations"), name);
}

std::optional<std::uint64_t> version_number(std::string_view resource_version) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(
      resource_version.data(), resource_version.data() + resource_version.size(), number);
  if (error != std::errc{} || stop != resource_version.data() + resource_version.size())
    return std::nullopt;
  return number;
}

namespace {

constexpr std::size_t kLongestKey = 16;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

bool JsonCutter::is_complete() const {
  return where_ == Where::Done || (shape_ == Shape::Sequence && where_ == Where::Outside);
}

// Servers write an event on one line: what was cut short ends here, and does not swallow the events
// behind it.
bool JsonCutter::cannot_be_inside(char c) const { return shape_ == Shape::Sequence && c == '\n'; }

// Follows strings and brackets inside an object.
bool JsonCutter::is_end_of_object(char c) {
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  return (c == '}' || c == ']') && --depth_ == 0;
}

void JsonCutter::read_envelope(char c) {
  envelope_ += c;
  if (in_string_) {
    if (depth_ == 1 && key_.size() < kLongestKey && (c != '"' || escaped_)) key_ += c;
    is_end_of_object(c);
    return;
  }
  if (c == '"' && depth_ == 1) key_.clear();
  // After a key's colon the latest string is that key: a value's string would be followed by a
  // comma.
  if (c == '[' && depth_ == 1 && key_ == "items") {
    where_ = Where::Items;
    return;
  }
  if (c == ',' && depth_ == 1) key_.clear();
  if (is_end_of_object(c)) where_ = Where::Done;
}

// Reads a character between objects; false: it is not allowed there.
bool JsonCutter::read_between(char c) {
  if (is_space(c)) return true;
  if (where_ == Where::Items && c == ',') return true;
  if (where_ == Where::Items && c == ']') {
    envelope_ += ']';
    key_.clear();
    where_ = Where::Envelope;
    return true;
  }
  if (c != '{' || where_ == Where::Done) return false;
  if (where_ == Where::Outside && shape_ == Shape::List) {
    depth_ = 1;
    envelope_ = '{';
    where_ = Where::Envelope;
    return true;
  }
  where_ = Where::Object;
  return true;
}

void JsonCutter::take(std::string_view part) {
  const std::size_t room = limits_.object_bytes - object_.size();
  if (part.size() > room) is_oversized_ = true;
  object_ += part.substr(0, room);
}

void JsonCutter::finish_object(std::string_view last_part, const Listener& listener) {
  where_ = shape_ == Shape::List ? Where::Items : Where::Outside;
  if (object_.empty() && !is_oversized_ && last_part.size() <= limits_.object_bytes)
    return listener(last_part, true);
  take(last_part);
  listener(object_, !is_oversized_);
  is_oversized_ = false;
  object_.clear();
  if (object_.capacity() > limits_.envelope_bytes) object_.shrink_to_fit();
}

void JsonCutter::give_up(std::string why) {
  where_ = Where::Broken;
  why_ = std::move(why);
}

bool JsonCutter::feed(std::string_view bytes, const Listener& listener) {
  std::size_t start = 0;  // of the object's part in `bytes`
  for (std::size_t i = 0; i < bytes.size() && where_ != Where::Broken; ++i) {
    const char c = bytes[i];
    switch (where_) {
      case Where::Object:
        if (cannot_be_inside(c)) {
          give_up("an event of the watch is cut short");
          break;
        }
        if (!is_end_of_object(c)) break;
        finish_object(bytes.substr(start, i + 1 - start), listener);
        depth_ = 1;  // the envelope's
        unbroken_bytes_ = 0;
        start = i + 1;
        break;
      case Where::Envelope:
        read_envelope(c);
        if (envelope_.size() > limits_.envelope_bytes)
          give_up("the list has more than " + std::to_string(limits_.envelope_bytes) +
                  " bytes beside its objects");
        break;
      default:
        if (!read_between(c)) {
          give_up("the response is not a list of objects");
        } else if (where_ == Where::Object) {
          start = i;
          depth_ = 1;
          unbroken_bytes_ = 0;
        }
    }
  }
  if (where_ == Where::Object) take(bytes.substr(start));
  if (where_ == Where::Broken || where_ == Where::Envelope) return where_ != Where::Broken;
  unbroken_bytes_ += bytes.size() - std::min(start, bytes.size());
  if (unbroken_bytes_ > limits_.hopeless_bytes)
    give_up((where_ == Where::Object ? "an object is longer than " : "there is nothing in ") +
            std::to_string(limits_.hopeless_bytes) + " bytes");
  return where_ != Where::Broken;
}

}  // namespace meshdns::registry::kubernetes
