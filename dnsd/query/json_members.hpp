// SPDX-License-Identifier: Apache-2.0
// Members of the JSON objects that explain.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <string>
#include <vector>

namespace meshdns::dnsd {

using JsonWriter = rapidjson::Writer<rapidjson::StringBuffer>;

inline void put(JsonWriter& json, const char* key, const std::string& value) {
  json.Key(key);
  json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}

inline void put(JsonWriter& json, const char* key, const std::vector<std::string>& values) {
  json.Key(key);
  json.StartArray();
  for (const std::string& value : values)
    json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  json.EndArray();
}

}  // namespace meshdns::dnsd
