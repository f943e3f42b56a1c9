// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/status_text.hpp"

#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <cstdint>
#include <iomanip>
#include <sstream>

#include "dnsd/cli/text_member.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

std::uint64_t number_member(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsUint64() ? found->value.GetUint64() : 0;
}

bool is_set(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsBool() && found->value.GetBool();
}

// Calls `show` for each object of the array, after `title`.
template <typename Show>
void put_objects(std::ostream& out, const std::string& json, const char* title, Show show) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsArray() || document.Empty()) return;
  out << title << '\n';
  for (const auto& element : document.GetArray())
    if (element.IsObject()) show(element);
}

void put_readiness(std::ostream& out, const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) return;
  out << (is_set(document, "ready") ? "ready" : "not ready") << '\n';
  const auto reasons = document.FindMember("reasons");
  if (reasons == document.MemberEnd() || !reasons->value.IsArray()) return;
  for (const auto& reason : reasons->value.GetArray())
    if (reason.IsString())
      out << "  "
          << registry::printable({reason.GetString(), reason.GetStringLength()}, kMaxShownText)
          << '\n';
}

void put_source(std::ostream& out, const rapidjson::Value& source) {
  out << "  " << text_member(source, "name") << ": "
      << (is_set(source, "complete") ? "read" : "not read yet") << ", "
      << number_member(source, "changes") << " changes";
  if (const auto error = text_member(source, "lastError"); !error.empty()) out << ", " << error;
  out << '\n';
}

void put_server(std::ostream& out, const rapidjson::Value& server) {
  out << "  " << text_member(server, "server") << ": " << text_member(server, "health") << ", "
      << std::fixed << std::setprecision(1)
      << static_cast<double>(number_member(server, "rttMicroseconds")) / 1000 << " ms, "
      << number_member(server, "queries") << " queries, " << number_member(server, "timeouts")
      << " timeouts";
  if (const auto error = text_member(server, "lastError"); !error.empty())
    out << ", last error: " << error;
  out << '\n';
}

void put_cache(std::ostream& out, const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) return;
  std::uint64_t entries = 0;
  std::uint64_t hits = 0;
  for (const char* kind : {"positive", "negative", "failure"}) {
    const auto found = document.FindMember(kind);
    if (found == document.MemberEnd() || !found->value.IsObject()) continue;
    entries += number_member(found->value, "entries");
    hits += number_member(found->value, "hits");
  }
  out << "cache\n  " << entries << " entries, " << hits << " hits, "
      << number_member(document, "misses") << " misses\n";
}

}  // namespace

std::string status_text(const StatusPages& pages) {
  std::ostringstream out;
  put_readiness(out, pages.readiness);
  put_objects(out, pages.sources, "sources", [&](const auto& source) { put_source(out, source); });
  put_objects(out, pages.upstreams, "upstream servers",
              [&](const auto& server) { put_server(out, server); });
  put_cache(out, pages.cache);
  return out.str();
}

std::string indented_json(const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError()) return json;
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  document.Accept(writer);
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace meshdns::dnsd
