// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/json_cutter.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::registry::kubernetes {
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
