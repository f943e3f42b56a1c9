// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/top_text.hpp"

#include <rapidjson/document.h>

#include <cstdint>
#include <iomanip>
#include <sstream>

#include "dnsd/cli/text_member.hpp"

namespace meshdns::dnsd {
namespace {

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

}  // namespace meshdns::dnsd
