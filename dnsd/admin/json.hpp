// SPDX-License-Identifier: Apache-2.0
// Responses with JSON of the admin pages.
#pragma once

#include <string>
#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/answer/json_members.hpp"

namespace meshdns::dnsd {

using Json = JsonWriter;

inline void put_number(Json& json, const char* key, double number) {
  json.Key(key);
  json.Double(number);
}

// `put_members` writes the members of the object.
template <typename PutMembers>
void put_object(Json& json, const char* key, PutMembers put_members) {
  json.Key(key);
  json.StartObject();
  put_members();
  json.EndObject();
}

// `put_members` writes the members of an element of the list, each of which is an object.
template <typename List, typename PutMembers>
void put_objects(Json& json, const char* key, const List& list, PutMembers put_members) {
  put_list(json, key, list, [&](const auto& element) {
    json.StartObject();
    put_members(element);
    json.EndObject();
  });
}

// A part of a page that is made in pieces.
template <typename Fill>
std::string json_text(Fill fill) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  fill(json);
  return {buffer.GetString(), buffer.GetSize()};
}

template <typename Fill>
HttpResponse json_response(Fill fill, unsigned status = 200) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  fill(json);
  buffer.Put('\n');
  return {status, "application/json", {buffer.GetString(), buffer.GetSize()}};
}

// A response that is one object.
template <typename PutMembers>
HttpResponse object_response(PutMembers put_members, unsigned status = 200) {
  const auto fill = [&](Json& json) {
    json.StartObject();
    put_members(json);
    json.EndObject();
  };
  return json_response(fill, status);
}

// A response that is a list of objects.
template <typename List, typename PutMembers>
HttpResponse list_response(const List& list, PutMembers put_members) {
  return json_response([&](Json& json) {
    json.StartArray();
    for (const auto& element : list) {
      json.StartObject();
      put_members(json, element);
      json.EndObject();
    }
    json.EndArray();
  });
}

inline HttpResponse json_error(std::string_view message, unsigned status) {
  return object_response([&](Json& json) { put(json, "error", message); }, status);
}

inline HttpResponse bad_request(std::string_view message) { return json_error(message, 400); }

}  // namespace meshdns::dnsd
