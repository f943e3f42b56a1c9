// SPDX-License-Identifier: Apache-2.0
// Helpers for the JSON of the admin pages.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <string_view>

#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

using Json = rapidjson::Writer<rapidjson::StringBuffer>;

inline void put(Json& json, std::string_view text) {
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}
inline void put(Json& json, const char* key, std::string_view text) {
  json.Key(key);
  put(json, text);
}
inline void put(Json& json, const char* key, std::uint64_t number) {
  json.Key(key);
  json.Uint64(number);
}
inline void put_bool(Json& json, const char* key, bool value) {
  json.Key(key);
  json.Bool(value);
}
template <typename List, typename Put>
void put_list(Json& json, const char* key, const List& list, Put put_element) {
  json.Key(key);
  json.StartArray();
  for (const auto& element : list) put_element(element);
  json.EndArray();
}

template <typename Fill>
HttpResponse json_response(Fill fill, unsigned status = 200) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  fill(json);
  buffer.Put('\n');
  return {status, "application/json", {buffer.GetString(), buffer.GetSize()}};
}

inline HttpResponse json_error(std::string_view message, unsigned status) {
  return json_response(
      [&](Json& json) {
        json.StartObject();
        put(json, "error", message);
        json.EndObject();
      },
      status);
}

}  // namespace meshdns::dnsd
