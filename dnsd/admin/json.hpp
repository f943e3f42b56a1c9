// SPDX-License-Identifier: Apache-2.0
// Responses with JSON of the admin pages.
#pragma once

#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/answer/json_members.hpp"

namespace meshdns::dnsd {

using Json = JsonWriter;

inline void put_number(Json& json, const char* key, double number) {
  json.Key(key);
  json.Double(number);
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

inline HttpResponse bad_request(std::string_view message) { return json_error(message, 400); }

}  // namespace meshdns::dnsd
