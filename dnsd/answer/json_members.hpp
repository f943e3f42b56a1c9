// SPDX-License-Identifier: Apache-2.0
// Helpers for JSON that is written by hand: explanations, and the pages of the admin endpoint.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

using JsonWriter = rapidjson::Writer<rapidjson::StringBuffer>;

inline void put(JsonWriter& json, std::string_view text) {
  if (!registry::is_utf8(text)) return put(json, std::string_view(registry::as_utf8(text)));
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}
inline void put(JsonWriter& json, const char* key, std::string_view text) {
  json.Key(key);
  put(json, text);
}
inline void put(JsonWriter& json, const char* key, std::uint64_t number) {
  json.Key(key);
  json.Uint64(number);
}
inline void put_bool(JsonWriter& json, const char* key, bool value) {
  json.Key(key);
  json.Bool(value);
}
template <typename List, typename Put>
void put_list(JsonWriter& json, const char* key, const List& list, Put put_element) {
  json.Key(key);
  json.StartArray();
  for (const auto& element : list) put_element(element);
  json.EndArray();
}
inline void put(JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  put_list(json, key, texts, [&](const std::string& text) { put(json, text); });
}

}  // namespace meshdns::dnsd
