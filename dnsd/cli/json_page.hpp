// SPDX-License-Identifier: Apache-2.0
// Reads pages of the admin endpoint.  Pages that are not as expected have empty members: the
// process that answers may be another version, or none of ours.
#pragma once

#include <rapidjson/document.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

using rapidjson::Document;
using rapidjson::Value;

inline constexpr std::size_t kMaxShownText = 1'000;
inline constexpr std::size_t kMaxShownName = 300;

// Null for text that is no JSON.
inline Document parsed(const std::string& json) {
  Document document;
  if (document.Parse(json.data(), json.size()).HasParseError()) document.SetNull();
  return document;
}

// A member of an object; null if there is none.
inline const Value& member(const Value& object, const char* key) {
  static const Value kNone;
  if (!object.IsObject()) return kNone;
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() ? kNone : found->value;
}

// The elements of a list; none if it is no list.
inline std::span<const Value> elements(const Value& list) {
  return list.IsArray() ? std::span(list.Begin(), list.Size()) : std::span<const Value>();
}

// The text of a page, safe for a terminal and cut at `limit` bytes; empty if it is no text.
inline std::string shown(const Value& text, std::size_t limit = kMaxShownText) {
  if (!text.IsString()) return {};
  return registry::printable({text.GetString(), text.GetStringLength()}, limit);
}

inline std::uint64_t count_in(const Value& object, const char* key) {
  const Value& number = member(object, key);
  return number.IsUint64() ? number.GetUint64() : 0;
}

inline double number_in(const Value& object, const char* key) {
  const Value& number = member(object, key);
  return number.IsNumber() ? number.GetDouble() : 0;
}

inline bool is_set(const Value& object, const char* key) { return member(object, key).IsTrue(); }

inline std::string name_in(const Value& object, const char* key) {
  return shown(member(object, key), kMaxShownName);
}

}  // namespace meshdns::dnsd
