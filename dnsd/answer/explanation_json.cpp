// SPDX-License-Identifier: Apache-2.0
// Explanations as JSON, for the admin page and for programs.
#include "dnsd/answer/explanation.hpp"
#include "dnsd/answer/json_members.hpp"

namespace meshdns::dnsd {
namespace {

void put_answer(JsonWriter& json, const Explanation::Answer& answer, Audience audience) {
  json.StartObject();
  put(json, "type", wire::to_string(answer.type));
  put(json, "verdict", answer.verdict);
  put(json, "why", answer.why);
  if (!answer.rcode.empty()) put(json, "rcode", answer.rcode);
  put(json, "records", answer.records);
  if (!answer.kernel.empty()) put(json, "kernel", answer.kernel);
  if (!answer.cached.empty() && audience == Audience::Operator) put(json, "cached", answer.cached);
  json.EndObject();
}

void put_near(JsonWriter& json, const registry::NearNames& near, Audience audience) {
  json.Key("near");
  json.StartArray();
  for (const registry::NearName& name : near.names) {
    json.StartObject();
    put(json, "name", name.name);
    put(json, "namespace", name.ns);
    json.EndObject();
  }
  json.EndArray();
  if (audience != Audience::Operator) return;
  json.Key("nearComplete");
  json.Bool(near.is_complete);
}

}  // namespace

std::string to_json(const Explanation& explanation, Audience audience) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  put(json, "name", explanation.name);
  put(json, "client", explanation.identity);
  json.Key("facts");
  json.StartArray();
  for (const auto& fact : explanation.facts) {
    if (fact.hidden && audience != Audience::Operator) continue;
    json.StartObject();
    put(json, "text", fact.text);
    json.Key("hidden");
    json.Bool(fact.hidden);
    json.EndObject();
  }
  json.EndArray();
  json.Key("answers");
  json.StartArray();
  for (const auto& answer : explanation.answers) put_answer(json, answer, audience);
  json.EndArray();
  if (audience == Audience::Operator) put(json, "upstreams", explanation.upstreams);
  put_near(json, explanation.near, audience);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace meshdns::dnsd
