// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/status_text.hpp"

#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

inline constexpr std::size_t kMaxShownText = 1'000;

// The text of a member of a page's JSON, safe for a terminal and cut at `limit` bytes.  Empty: the
// object has no such text.
inline std::string text_member(const rapidjson::Value& object, const char* key,
                               std::size_t limit = kMaxShownText) {
  const auto found = object.FindMember(key);
  if (found == object.MemberEnd() || !found->value.IsString()) return {};
  return registry::printable({found->value.GetString(), found->value.GetStringLength()}, limit);
}

using rapidjson::Value;

constexpr std::size_t kLongestText = 300;

std::string top_string(const Value& object, const char* key) {
  return text_member(object, key, kLongestText);
}

double top_number(const Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsNumber() ? found->value.GetDouble() : 0;
}

// The share of all queries in percent.
double share_of(const Value& entry, const Value& page) {
  const double all = top_number(page, "queries");
  return all > 0 ? 100 * top_number(entry, "queries") / all : 0;
}

// Puts the list `key` of `page`, unless it is empty: numbers first, since names have any length.
template <typename Show>
void put_top_list(std::ostream& out, const Value& page, const char* key, const char* heading,
                  Show show) {
  const auto found = page.FindMember(key);
  if (found == page.MemberEnd() || !found->value.IsArray() || found->value.Empty()) return;
  out << '\n' << heading << '\n';
  for (const auto& entry : found->value.GetArray()) {
    if (!entry.IsObject()) continue;
    show(entry);
    out << '\n';
  }
}

std::string client_text(const Value& entry) {
  const std::string client = top_string(entry, "client");
  return top_string(entry, "address") + (client.empty() ? "" : "  " + client);
}

}  // namespace

std::string top_text(const std::string& page) {
  rapidjson::Document top;
  top.Parse(page.data(), page.size());
  if (top.HasParseError() || !top.IsObject()) return {};
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  const auto put_rate = [&](const Value& entry) {
    out << std::setw(10) << top_number(entry, "perSecond") << std::setw(7) << share_of(entry, top)
        << " %  ";
  };
  const auto put_ms = [&](const Value& entry, const char* key) {
    out << std::setw(10) << top_number(entry, key);
  };
  out << top_number(top, "perSecond") << " queries per second in the last "
      << static_cast<std::uint64_t>(top_number(top, "seconds")) << " s, "
      << static_cast<std::uint64_t>(top_number(top, "refused")) << " refused or limited\n";
  put_top_list(out, top, "names", " queries/s  share  name", [&](const Value& entry) {
    put_rate(entry);
    out << top_string(entry, "name");
  });
  put_top_list(out, top, "clients", " queries/s  share  client", [&](const Value& entry) {
    put_rate(entry);
    out << client_text(entry);
  });
  put_top_list(out, top, "namespaces", " queries/s  share  namespace", [&](const Value& entry) {
    put_rate(entry);
    out << top_string(entry, "namespace");
  });
  put_top_list(out, top, "refusedClients", " queries/s  share  refused or limited client",
               [&](const Value& entry) {
                 put_rate(entry);
                 out << client_text(entry);
               });
  put_top_list(out, top, "forwarded", "   mean ms   longest   queries  slow forwarded name",
               [&](const Value& entry) {
                 put_ms(entry, "meanMs");
                 put_ms(entry, "longestMs");
                 out << std::setw(10) << static_cast<std::uint64_t>(top_number(entry, "queries"))
                     << "  " << top_string(entry, "name");
               });
  put_top_list(out, top, "upstreams", " median ms      90 %      99 %   answers  upstream server",
               [&](const Value& entry) {
                 put_ms(entry, "medianMs");
                 put_ms(entry, "p90Ms");
                 put_ms(entry, "p99Ms");
                 out << std::setw(10) << static_cast<std::uint64_t>(top_number(entry, "answers"))
                     << "  " << top_string(entry, "server") << ", " << top_string(entry, "health");
               });
  return out.str();
}

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
